// Keeps the end of a thread in view when new messages arrive, if it was in view before.
(() => {
  let atEnd = false;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const page = document.documentElement;
    atEnd = event.target.classList.contains("follow")
      && page.scrollHeight - page.scrollTop - page.clientHeight < 120;
  });
  document.addEventListener("htmx:afterSettle", () => {
    if (atEnd) {
      atEnd = false;
      document.getElementById("end")?.scrollIntoView({ block: "end" });
    }
  });
})();
