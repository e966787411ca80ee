// What changes by itself stays as it was read: the end of a thread stays in view if it was, and
// parts of the working memory that were opened stay open.
(() => {
  let isAtEnd = false;
  const opened = [];
  // Several parts may be replaced before the first of them has settled.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const page = document.documentElement;
    if (event.target.classList.contains("follow")) {
      isAtEnd = page.scrollHeight - page.scrollTop - page.clientHeight < 120;
    }
    const parts = event.target.querySelectorAll("details[open] > summary[id]");
    opened.push(...[...parts].map((part) => part.id));
  });
  // An open page does not promise new messages while nothing can be read.
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.elt.classList.contains("follow")) return;
    document.getElementById("end").textContent = event.detail.successful
      ? "New messages appear here."
      : event.detail.xhr.status
        ? "The store is not available now. New messages appear here when it is."
        : "The inspector has ended: start `jazzmine inspect` again.";
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (isAtEnd) {
      isAtEnd = false;
      document.getElementById("end")?.scrollIntoView({ block: "end" });
    }
    for (const id of opened.splice(0)) {
      const part = document.getElementById(id);
      if (part) part.parentElement.open = true;
    }
  });
})();
