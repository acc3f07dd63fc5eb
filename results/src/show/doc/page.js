// Script of a page: reads its charts, sorts its tables, and copies its commands. Everything that it shows is on the page already.
{
  const element = (tag, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };
  const shape = (tag, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };

  // Numbers as the text of the page has them.
  const digits = (value) => [2, 1, 0].map((n) => value.toFixed(n)).find((text) => text.replace(/\D/g, "").length <= 3);
  const number = (value) => value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2 });
  const micros = (us) => {
    for (const [unit, factor] of [["µs", 1], ["ms", 1e3], ["s", 1e6]]) {
      const text = digits(us / factor);
      if (text) return `${text} ${unit}`;
    }
    return `${(us / 1e6).toFixed(0)} s`;
  };
  const format = {
    number,
    micros,
    percent: (part) => `${(part * 100).toFixed((part > 0 && part < 0.0995) || (part >= 0.99 && part < 1) ? 1 : 0)} %`,
    change: (value) => `${value > 0 ? "+" : ""}${number(value)} %`,
    nines: (n) => `${(100 - 100 * 10 ** -n).toFixed(Math.max(0, Math.ceil(n)))} %`,
  };

  // Charts. A place on an axis is its part of the whole: 0 to 1.
  const value = ({ log, from, to }, place) => (log ? from * (to / from) ** place : from + place * (to - from));
  const place = ({ log, from, to }, value) => (log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from));
  const between = (value, low, high) => Math.min(Math.max(value, low), high);
  const under = (mark, axis, x) => {
    if (mark.values) return x <= mark.to ? mark.values[Math.floor((x - mark.from) / mark.width + 1e-6)] : null;
    const away = ([at]) => Math.abs(place(axis, at) - place(axis, x));
    const best = mark.points.reduce((a, b) => (away(b) < away(a) ? b : a));
    return away(best) < 0.03 ? best[1] : null;
  };

  const panels = [];
  class Panel {
    constructor(field, data, output) {
      const [left, top, width, height] = ["x", "y", "width", "height"].map((side) => field[side].baseVal.value);
      const ticks = field.nextElementSibling?.matches(".ticks") ? field.nextElementSibling : field.parentElement.querySelector(".ticks");
      Object.assign(this, data, { field, output, left, top, width, height, ticks, axis: JSON.stringify(data.x), view: [0, 1] });
      this.cursor = field.appendChild(shape("path", { class: "quiet line", "stroke-width": 1 }));
      this.selected = field.appendChild(shape("rect", { class: "blue", y: top, height, opacity: 0.25 }));
    }

    // Panels over the same axis.
    get alike() {
      return panels.filter((other) => other.axis === this.axis);
    }

    // The place under the pointer.
    at({ clientX }) {
      const svg = this.field.ownerSVGElement;
      const { left, width } = svg.getBoundingClientRect();
      const x = ((clientX - left) * svg.viewBox.baseVal.width) / width - this.left;
      const [low, high] = this.view;
      return between(low + (x / this.width) * (high - low), low, high);
    }

    // Place on the vertical axis under the pointer: 0 at the bottom.
    height_at({ clientY }) {
      const svg = this.field.ownerSVGElement;
      const { top, height } = svg.getBoundingClientRect();
      return 1 - (((clientY - top) * svg.viewBox.baseVal.height) / height - this.top) / this.height;
    }

    // Draw the crosshair in all panels of this axis, and write the values of their marks.
    read(at, event) {
      const x = value(this.x, at);
      for (const output of new Set(panels.map((panel) => panel.output))) output.textContent = "";
      for (const panel of panels) panel.cursor.removeAttribute("d");
      for (const panel of this.alike) {
        panel.cursor.setAttribute("d", `M${panel.left + at * panel.width} ${panel.top}v${panel.height}`);
        const said = panel.output.textContent ? [] : [`${format[panel.x.format](x)} ${panel.x.label.replace(/ \(.*/, "")}`];
        const down = event && panel === this ? panel.height_at(event) : -1;
        if (down >= 0 && down < 1 && panel.y.rows) said.push(panel.y.rows[Math.floor(value(panel.y, down))]);
        else if (down >= 0 && down <= 1 && !panel.marks.some((mark) => mark.values)) said.push(format[panel.y.format](value(panel.y, down)));
        for (const mark of panel.marks) {
          const found = under(mark, panel.x, x);
          if (found !== null && found !== undefined) said.push(`${mark.name} ${format[panel.y.format](found)}`);
        }
        panel.output.append(said.map((text) => (panel.output.textContent || text !== said[0] ? ` · ${text}` : text)).join(""));
      }
    }

    // Show a part of the axis in all of its panels.
    zoom(low, high) {
      for (const panel of this.alike) {
        const { field, left, top, width, height, ticks } = panel;
        panel.view = [low, high];
        field.setAttribute("viewBox", `${left + low * width} ${top} ${(high - low) * width} ${height}`);
        field.setAttribute("overflow", high - low < 1 ? "hidden" : "visible");
        ticks?.parentElement.querySelector(".zoomed")?.remove();
        ticks?.setAttribute("display", high - low < 1 ? "none" : "inline");
        if (!ticks || high - low === 1) continue;
        const zoomed = ticks.parentElement.appendChild(shape("g", { class: "zoomed", "text-anchor": "middle", "font-size": 13 }));
        const y = ticks.querySelector("text").getAttribute("y");
        for (const part of [0, 0.25, 0.5, 0.75, 1]) {
          const label = shape("text", { class: "quiet", x: left + part * width, y });
          label.textContent = format[panel.x.format](value(panel.x, low + part * (high - low)));
          zoomed.append(label);
        }
      }
    }
  }

  for (const description of document.querySelectorAll("figure > script")) {
    const svg = description.parentElement.querySelector("svg");
    const output = element("output", { className: "at" });
    svg.parentElement.before(output);
    const own = JSON.parse(description.textContent).map((data, n) => new Panel(svg.querySelectorAll(".field")[n], data, output));
    panels.push(...own);
    const over = (event) => own.reduce((a, b) => (Math.abs(b.height_at(event) - 0.5) * b.height < Math.abs(a.height_at(event) - 0.5) * a.height ? b : a));
    let start = null;
    svg.onpointerdown = (event) => {
      if (event.target.closest(".key")) return;
      start = { panel: over(event), at: over(event).at(event) };
    };
    svg.onpointermove = (event) => {
      const panel = start?.panel ?? over(event);
      const at = panel.at(event);
      panel.read(at, event);
      if (start) {
        start.panel.selected.setAttribute("x", panel.left + Math.min(start.at, at) * panel.width);
        start.panel.selected.setAttribute("width", Math.abs(at - start.at) * panel.width);
      }
    };
    svg.onpointerup = svg.onpointerleave = (event) => {
      if (!start) return;
      const { panel, at } = start;
      const ends = [at, panel.at(event)].sort((a, b) => a - b);
      panel.selected.setAttribute("width", 0);
      start = null;
      if (ends[1] - ends[0] > 0.01 * (panel.view[1] - panel.view[0])) panel.zoom(...ends);
    };
    svg.ondblclick = () => own.forEach((panel) => panel.zoom(0, 1));
    svg.setAttribute("role", "group");
    svg.setAttribute("tabindex", 0);
    let by_keys = 0.5;
    svg.onkeydown = (event) => {
      if (event.key === "Escape") svg.ondblclick();
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01 }[event.key];
      if (!step) return;
      event.preventDefault();
      by_keys = between(by_keys + step, 0, 1);
      own[0].read(by_keys);
    };
    for (const key of svg.querySelectorAll(".key")) {
      key.setAttribute("tabindex", 0);
      key.setAttribute("role", "button");
      key.setAttribute("aria-pressed", true);
      key.onclick = () => {
        const isOff = svg.querySelector(`[data-key="${key.dataset.key}"]`).classList.toggle("off");
        key.setAttribute("aria-pressed", !isOff);
        for (const mark of svg.querySelectorAll(`.field [data-key="${key.dataset.key}"]`)) mark.classList.toggle("off", isOff);
      };
      key.onkeydown = (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), key.onclick());
    }
  }

  // Tables: a click on a heading sorts by it, a second one the other way round.
  const units = { µs: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, k: 1e3, M: 1e6, G: 1e9, kB: 1e3, KiB: 1024, MB: 1e6, MiB: 1048576, GB: 1e9, GiB: 1073741824 };
  const sortable = (text) => {
    const [, sign, value, unit] = /^\D*?([-−+]?)([\d.,]*\d)\s*([^\d\s/]*)/.exec(text.trim()) ?? [];
    return value === undefined ? null : (sign && sign !== "+" ? -1 : 1) * Number(value.replaceAll(",", "")) * (units[unit] ?? 1);
  };
  for (const heading of document.querySelectorAll("thead th")) {
    const body = heading.closest("table").tBodies[0];
    // A table whose rows have names and no heading above them has another quantity in each; a row without a name belongs to that above it.
    const isNamed = (row) => row.cells[0].textContent;
    if (body.querySelectorAll("tr:not(.sum)").length < 2 || ![heading.parentElement, ...body.rows].every(isNamed) || !heading.textContent) continue;
    const button = element("button", { type: "button", className: "sort" }, ...heading.childNodes);
    heading.append(button);
    button.onclick = () => {
      const isUp = heading.getAttribute("aria-sort") !== "ascending";
      heading.parentElement.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      const text = (row) => row.cells[heading.cellIndex].textContent;
      const isNumeric = heading.classList.contains("number");
      const compared = (a, b) => (isNumeric ? (sortable(text(a)) ?? -Infinity) - (sortable(text(b)) ?? -Infinity) || 0 : text(a).localeCompare(text(b), "en", { numeric: true }));
      const rows = [...body.querySelectorAll("tr:not(.sum)")].sort((a, b) => (isUp ? compared(a, b) : compared(b, a)));
      body.prepend(...rows);
    };
  }

  for (const button of document.querySelectorAll("button[data-copies]")) {
    const source = document.getElementById(button.dataset.copies);
    button.hidden = false;
    button.addEventListener("click", async () => {
      let done = true;
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch {
        getSelection().selectAllChildren(source);
        done = document.execCommand("copy");
      }
      button.textContent = done ? "Copied" : "Selected";
    });
  }
}
