-- How many calls of models did not report their tokens, and how many have no cost.

ALTER TABLE stored_turn_traces ADD COLUMN unreported_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stored_turn_traces ADD COLUMN unpriced_calls INTEGER NOT NULL DEFAULT 0;
UPDATE stored_turn_traces SET (unreported_calls, unpriced_calls) = (
    SELECT
        coalesce(sum(coalesce(json_extract(value, '$.prompt_tokens'), 0) <= 0), 0),
        coalesce(sum(json_extract(value, '$.cost_usd') IS NULL), 0)
    FROM json_each(CASE WHEN json_valid(body) THEN body ELSE '{}' END, '$.llm_calls')
)
WHERE body LIKE '%"llm_calls":[{%';
