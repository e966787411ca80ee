// Keys: "/" goes to the first field, or to the search where a page has none, "j" and "k" to the next and
// the previous message or row, "n" and "p" to the next and the previous page. A button copies a block in
// monospace. Times are shown in the zone of the browser;
// a time that is of another day there says which.
(() => {
  const items = () => [...document.querySelectorAll(".message, .rows a, .turns tbody a")];
  const go = (step) => {
    const all = items();
    const at = all.indexOf(document.activeElement);
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    if (next === undefined) return;
    if (!next.hasAttribute("href")) next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const keys = {
    "/": () => {
      const field = document.querySelector(".filters input");
      if (!field) return location.assign("./search#words");
      field.focus();
      field.select();
    },
    j: () => go(1),
    k: () => go(-1),
    n: () => document.querySelector("a[rel=next]")?.click(),
    p: () => document.querySelector("a[rel=prev]")?.click(),
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
  const two = (number) => String(number).padStart(2, "0");
  const showLocal = (root) => {
    for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(time.dateTime);
      if (!at.getTimezoneOffset()) continue;
      time.dataset.local = "";
      const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
      const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
      const shown = clock.slice(0, time.textContent.length);
      const weekday = at.toLocaleDateString("en", { weekday: "short" });
      if (time.textContent === time.title) time.textContent = `${day} ${clock}`;
      else time.textContent = time.dateTime.startsWith(day) ? shown : `${weekday} ${shown}`;
    }
  };
  const improve = (root) => {
    addButtons(root);
    showLocal(root);
  };
  improve(document);
  document.addEventListener("htmx:afterSettle", (event) => improve(event.target.parentNode ?? document));
  if (new Date().getTimezoneOffset()) {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    document.getElementById("zone").textContent = `times are those of ${zone}, days are UTC`;
  }
})();
