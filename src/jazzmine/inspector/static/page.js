// Keys: "/" goes to the search, "j" and "k" to the next and the previous message or row, "n" to the
// next page. A button copies what stands in monospace.
(() => {
  const items = () => [...document.querySelectorAll(".message, .rows a, .turns tbody a")];
  const go = (step) => {
    const all = items();
    const at = all.findIndex((one) => one === document.activeElement);
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    if (next === undefined) return;
    if (!next.hasAttribute("href")) next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const keys = {
    "/": () => document.querySelector(".filters input")?.focus(),
    j: () => go(1),
    k: () => go(-1),
    n: () => document.querySelector("a[rel=next]")?.click(),
  };
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const addButtons = (root) => {
    if (!navigator.clipboard) return;
    for (const block of root.querySelectorAll("pre:not([data-copied])")) {
      block.dataset.copied = "";
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(block.innerText);
        button.textContent = "Copied";
      });
      block.before(button);
    }
  };
  addButtons(document);
  document.addEventListener("htmx:afterSettle", (event) => addButtons(event.target.parentNode ?? document));
})();
