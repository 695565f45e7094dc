"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const table = document.querySelector(".matrix table");
  const dialog = document.querySelector("dialog");
  const form = document.querySelector("form.filters");
  const count = document.querySelector(".count");
  const rows = [...table.tBodies[0].rows].map((row) => ({
    row,
    name: row.dataset.name,
    domain: row.dataset.domain,
    cells: [...row.querySelectorAll("td")].map((td) => ({ td, mark: td.firstElementChild })),
  }));
  const tiers = data.tiers.length;

  const attemptsOf = (row, column) => data.rows[row][Math.floor(column / tiers)].t[column % tiers];

  // --- filters: what does not fit is hidden, and a status line says how much is left
  const filter = () => {
    const want = Object.fromEntries(new FormData(form));
    const agent = want.agent === "" ? -1 : Number(want.agent);
    const tier = want.tier === "" ? -1 : Number(want.tier);
    const cause = want.cause === "" ? -1 : Number(want.cause);
    const text = want.text.trim().toLowerCase();
    const shown = (column) => (agent < 0 || Math.floor(column / tiers) === agent) && (tier < 0 || column % tiers === tier);
    const first = (column) => (tier < 0 ? column % tiers === 0 : true);
    let left = 0;
    let cells = 0;
    rows.forEach(({ row, name, domain, cells: own }, number) => {
      let any = false;
      own.forEach(({ td, mark }, column) => {
        const visible = shown(column);
        td.hidden = !visible;
        td.classList.toggle("first", first(column));
        const fits = visible && (!want.verdict || mark.classList.contains(want.verdict)) &&
          (cause < 0 || attemptsOf(number, column).some((one) => one[2] === cause));
        td.classList.toggle("away", visible && !fits);
        any ||= fits;
      });
      const stays = any && (!want.domain || domain === want.domain) && (!text || name.toLowerCase().includes(text));
      row.hidden = !stays;
      left += stays;
      if (stays) cells += own.filter(({ td }) => !td.hidden && !td.classList.contains("away")).length;
    });
    const heads = table.tHead.rows;
    [...heads[0].cells].slice(1).forEach((head, index) => {
      head.hidden = agent >= 0 && index !== agent;
      head.colSpan = tier < 0 ? tiers : 1;
    });
    [...heads[1].cells].forEach((head, column) => {
      head.hidden = !shown(column);
      head.classList.toggle("first", first(column));
    });
    count.textContent = `${left} of ${rows.length} repositories, ${cells} cells`;
    rove();
  };
  form.addEventListener("input", filter);
  form.addEventListener("change", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());

  // --- keys: one cell is in the order of tabs, arrows go on from there
  let current = null;
  const reachable = (cell) => cell && !cell.closest("[hidden]") && !cell.closest(".away");
  const rove = (to) => {
    const next = to || (reachable(current) ? current : [...table.querySelectorAll("a.c")].find(reachable));
    if (current) current.tabIndex = -1;
    current = next || null;
    if (current) current.tabIndex = 0;
  };
  table.querySelectorAll("a.c").forEach((cell) => { cell.tabIndex = -1; });
  const step = (cell, down, right) => {
    let row = rows.findIndex((one) => one.row.contains(cell));
    let column = rows[row].cells.findIndex((one) => one.mark === cell);
    for (;;) {
      row += down;
      column += right;
      const next = rows[row] && rows[row].cells[column];
      if (!next) return;
      if (next.mark.matches("a.c") && reachable(next.mark)) {
        rove(next.mark);
        next.mark.focus();
        return;
      }
    }
  };
  const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("a.c");
    if (!cell) return;
    if (ARROWS[event.key]) {
      event.preventDefault();
      step(cell, ...ARROWS[event.key]);
    } else if (event.key === " ") {
      event.preventDefault();
      open(cell);
    }
  });

  // --- a cell's attempts: everything goes in as text
  const put = (parent, name, text, kind) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    parent.append(element);
    return element;
  };
  const open = (cell) => {
    const row = rows.findIndex((one) => one.row.contains(cell));
    const column = rows[row].cells.findIndex((one) => one.mark === cell);
    const agent = Math.floor(column / tiers);
    const tier = data.tiers[column % tiers];
    dialog.querySelector("h2").textContent = `${rows[row].name}: ${tier[0]} ${tier[1]}`;
    dialog.querySelector(".who").textContent = `${data.agents[agent]} · ${rows[row].domain}`;
    const body = dialog.querySelector("tbody");
    body.replaceChildren();
    for (const [index, verdict, cause, words, seconds, counted] of attemptsOf(row, column)) {
      const [number, page] = data.rows[row][agent].p[index];
      const line = put(body, "tr");
      put(line, "th", String(number)).scope = "row";
      put(put(line, "td"), "span", data.verdicts[verdict], `chip ${data.verdicts[verdict]}`);
      if (!counted) put(line.lastChild, "div", "not counted", "note");
      put(line, "td", cause < 0 ? "" : data.causes[cause]);
      put(line, "td", words, "words");
      put(line, "td", seconds ? `${seconds} s` : "", "n");
      const link = put(put(line, "td"), "a", "details");
      link.href = `${page}#${tier[0]}`;
      link.setAttribute("aria-label", `details of attempt ${number}`);
    }
    rove(cell);
    dialog.showModal();
  };
  table.addEventListener("click", (event) => {
    const cell = event.target.closest("a.c");
    if (!cell || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(cell);
  });
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => current && current.focus());
  form.hidden = false;
  filter();
})();
