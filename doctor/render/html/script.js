"use strict";
// A button beside each command; without this script they are copied by hand.
for (const box of document.querySelectorAll("pre.command")) {
  const button = document.createElement("button");
  const frame = document.createElement("div");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", () => {
    const selection = getSelection();
    selection.selectAllChildren(box.firstElementChild);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  frame.className = "copied";
  box.replaceWith(frame);
  frame.append(box, button);
}

// A field that shows only the rows that contain all of its words.
for (const field of document.querySelectorAll("input[data-filters]")) {
  const rows = [...document.getElementById(field.dataset.filters).rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const around = field.closest("p"), said = around.querySelector("[aria-live]");
  around.hidden = false;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    rows.forEach((row, place) => {
      row.hidden = !words.every((word) => texts[place].includes(word));
      left += !row.hidden;
    });
    said.textContent = words.length ? `${left} of ${rows.length}` : "";
  });
}

// What is folded is open on paper, and where a link leads to.
const folded = () => document.querySelectorAll("details:not([open])");
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...folded()];
  for (const each of opened) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of opened) each.open = false;
});
const reveal = (id) => {
  const target = document.getElementById(id);
  const around = target && (target.closest("details") || target.querySelector(":scope > details"));
  if (around && !around.open) {
    around.open = true;
    target.scrollIntoView();
  }
  return target;
};
addEventListener("hashchange", () => reveal(location.hash.slice(1)));
reveal(location.hash.slice(1));

// In a notebook's frame a link is taken for one of the notebook's page.
if (location.protocol === "about:") {
  addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const target = link && reveal(link.getAttribute("href").slice(1));
    if (target) {
      event.preventDefault();
      target.tabIndex = -1;
      target.focus({ preventScroll: true });
      target.scrollIntoView();
    }
  });
}
