// Script of a page: draws its charts with uPlot, sorts its tables, and copies its commands. Everything that it shows is on the page
// already, as pictures and tables; a chart is drawn from the same description as its picture.
{
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(`--${name}`);
  const element = (tag, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };

  // Numbers as the text of the page has them.
  const digits = (value) => [2, 1, 0].map((n) => value.toFixed(n)).find((text) => text.replace(/\D/g, "").length <= 3);
  const number = (value) => value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2 });
  const percent = (part) => `${(part * 100).toFixed((part > 0 && part < 0.0995) || (part >= 0.99 && part < 1) ? 1 : 0)} %`;
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
    percent,
    per_second: (value) => `${number(value)}/s`,
    change: (value) => `${value > 0 ? "+" : ""}${number(value)} %`,
    nines: (n) => `${(100 - 100 * 10 ** -n).toFixed(Math.max(0, Math.ceil(n - 1e-9) - 2 + (n % 1 > 1e-9 ? 1 : 0)))} %`,
  };
  const tick = (axis) => (value) =>
    value === 0 && axis.format !== "nines" ? "0" : format[axis.format](value).replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
  // What the horizontal axis counts, without the note on its steps.
  const quantity = (axis) => axis.label.replace(/ \(.*/, "");

  // The values of a column: listed, with the number of repetitions of the value before it; or packed in a text.
  const codes = new Map([...Array(92).keys()].map((n) => String.fromCharCode(35 + n)).filter((digit) => !"&<>\\".includes(digit)).map((digit, n) => [digit, n]));
  const listed = (column) => {
    const values = [];
    if (Array.isArray(column)) {
      for (const one of column) {
        if (Array.isArray(one)) for (let n = 0; n < one[0]; n++) values.push(values.at(-1));
        else values.push(one);
      }
      return values;
    }
    const { least, exponent, digits, text, last } = column;
    for (let at = 0; at < text.length; at += digits) {
      let code = 0;
      for (const digit of text.slice(at, at + digits)) code = code * codes.size + codes.get(digit);
      const whole = least + code - 1;
      values.push(code === 0 ? null : exponent < 0 ? whole / 10 ** -exponent : whole * 10 ** exponent);
    }
    if (last !== undefined) values.push(last);
    return values;
  };

  // A shape as lists: points of a line, or rectangles; and the value at a place.
  const decoders = {
    areas: (steps) => ({ ...decoders.steps(steps), isArea: true }),
    steps({ from, width, end, y }) {
      const [values, points] = [listed(y), []];
      values.forEach((value, n) => {
        points.push([from + n * width, value], [Math.min(from + (n + 1) * width, end), value]);
      });
      return { points, at: (x) => (x <= end ? values[Math.floor((x - from) / width + 1e-6)] : null) };
    },
    line(columns) {
      const [x, y] = [listed(columns.x), listed(columns.y)];
      const points = x.map((at, n) => [at, y[n]]);
      return { points, at: (place) => nearest(points, place) };
    },
    dots({ x, y, intervals, hollow }) {
      const points = x.map((at, n) => [at, y[n]]);
      return { points, intervals, hollow, isDots: true, at: (place, _, reach) => nearest(points, place, reach) };
    },
    blocks(columns) {
      const [x, y, at] = [columns.x, columns.y, columns.at].map(listed);
      const boxes = [];
      for (let n = 0; n < at.length; n += 4) boxes.push([x[at[n]], x[at[n + 1]], y[at[n + 2]], y[at[n + 3]]]);
      const corners = boxes.flatMap(([left, right, low, high]) => [[left, low], [right, high]]);
      const found = (a, b) => boxes.find(([left, right, low, high]) => a >= left && a < right && (b === null || (b >= low && b < high)));
      return { points: corners, boxes, found, at: (a) => (found(a, null) ? found(a, null)[3] - found(a, null)[2] : null) };
    },
    band: ([from, to]) => ({ points: [], band: [from, to], at: () => null }),
    across: (y) => ({ points: [[-Infinity, y], [Infinity, y]], at: () => y }),
    upright: (x) => ({ points: [], upright: x, at: () => null }),
  };
  const nearest = (points, place, reach = Infinity) => {
    let best = null;
    for (const point of points) if (best === null || Math.abs(point[0] - place) < Math.abs(best[0] - place)) best = point;
    return best && Math.abs(best[0] - place) <= reach ? best[1] : null;
  };
  const decoded = (mark) => {
    const [kind] = Object.keys(decoders).filter((kind) => kind in mark.shape);
    return { ...mark, ...decoders[kind](mark.shape[kind]), kind, isLevel: mark.shape.level };
  };

  // The path of a mark on the canvas.
  const path = (u, mark) => {
    const { left, top, width, height } = u.bbox;
    const x = (value) => u.valToPos(value, "x", true);
    const { min, max } = u.scales.y;
    // Nothing has no place on a logarithmic axis, and lies at its end.
    const y = (value) => u.valToPos(u.scales.y.distr === 3 ? Math.min(Math.max(value, min), max) : value, "y", true);
    const [stroke, fill, ratio] = [new Path2D(), new Path2D(), devicePixelRatio];
    if (mark.boxes) {
      for (const [from, to, low, high] of mark.boxes) {
        fill.rect(x(from), Math.min(y(low), y(high)), Math.max(x(to) - x(from), ratio), Math.abs(y(high) - y(low)));
      }
    } else if (mark.band) {
      fill.rect(x(mark.band[0]), top, Math.max(x(mark.band[1]) - x(mark.band[0]), 2 * ratio), height);
    } else if (mark.kind === "upright") {
      // Half of a line at the end of the field would be cut off.
      const at = Math.min(x(mark.upright), left + width - ratio);
      stroke.moveTo(at, top);
      stroke.lineTo(at, top + height);
    } else if (mark.kind === "across") {
      stroke.moveTo(left, y(mark.points[0][1]));
      stroke.lineTo(left + width, y(mark.points[0][1]));
    } else if (mark.isDots) {
      mark.points.forEach(([at, value], n) => {
        fill.moveTo(x(at), y(value));
        fill.arc(x(at), y(value), 4 * ratio, 0, 7);
        if (mark.intervals[n]) {
          stroke.moveTo(x(at), y(mark.intervals[n][0]));
          stroke.lineTo(x(at), y(mark.intervals[n][1]));
        }
      });
      if (mark.hollow) stroke.addPath(fill);
    } else {
      let isOpen = false;
      for (const [at, value] of mark.points) {
        const has = value !== null && value !== undefined;
        if (has) stroke[isOpen ? "lineTo" : "moveTo"](x(at), y(value));
        isOpen = has;
      }
    }
    return { stroke, fill, clip: null, band: null, gaps: null, flags: 0 };
  };

  const decades = (low, high) => {
    const splits = [];
    for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++) {
      for (const factor of high / low <= 101 ? [1, 2, 5] : [1]) splits.push(factor * 10 ** decade);
    }
    const inside = splits.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    return inside.length > 1 ? inside : [low, (low + high) / 2, high];
  };
  // Of values along the bottom, those that have room for their words: powers of ten first.
  const apart = (u, n, splits) => {
    if (n !== 0) return splits;
    const room = 48;
    const kept = [];
    const isDecade = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
    for (const value of [...splits.filter(isDecade), ...splits.filter((value) => !isDecade(value))]) {
      if (kept.every((other) => Math.abs(u.valToPos(other, "x") - u.valToPos(value, "x")) >= room)) kept.push(value);
    }
    return kept.sort((a, b) => a - b);
  };
  // From a round value to a round value, by factors.
  const rounded = (low, high) => {
    const factors = (value) => [1, 2, 5, 10].map((factor) => factor * 10 ** Math.floor(Math.log10(value)));
    return [factors(low).findLast((edge) => edge <= low * 1.001), factors(high).find((edge) => edge >= high * 0.999)];
  };
  const splits = (axis, scale) => {
    if (axis.ticks) return () => axis.ticks;
    if (axis.rows) {
      return (u) => {
        const every = Math.ceil((15 * axis.rows.length) / (u.bbox.height / devicePixelRatio || 1));
        return axis.rows.map((_, n) => n + 0.5).filter((_, n) => n % every === 0);
      };
    }
    if (scale.distr === 3) return (u, n, low, high) => apart(u, n, decades(low, high));
    if (axis.format === "nines") return (u, n, low, high) => (high - low > 1.5 ? [...Array(13).keys()].filter((n) => n >= low && n <= high) : [low, (low + high) / 2, high]);
    return null;
  };

  const all = [];
  const publishes = (type) => type === "mousemove" || type === "mouseleave";

  class Panel {
    constructor(box, data) {
      Object.assign(this, { box, ...data, marks: data.marks.map(decoded) });
      // A mark without a key of its own belongs to the one of its colour; marks of one name have one key.
      const belongs = (mark) => (other) => (mark.legend ? other.legend === mark.legend : other.legend && other.ink === mark.ink);
      for (const mark of this.marks) mark.owner = mark.isLevel ? mark : (this.marks.find(belongs(mark)) ?? mark);
      this.hidden = new Set();
      this.stack();
      this.isLog = this.y.log;
      this.sync = JSON.stringify([quantity(this.x), this.x.ends]);
      this.at = element("output", { className: "at" });
      this.legend = element("div", { className: "legend" }, this.at, ...this.marks.filter((mark) => mark.owner === mark && (mark.legend || mark.isLevel)).map((mark) => this.key(mark)));
      const unit = element("p", { className: "unit" }, this.y.label.replace(/ \(log scale\)/, ""));
      this.reset = element("button", { type: "button", hidden: true, textContent: "Reset zoom", onclick: () => this.zoom(...this.full) });
      unit.append(this.reset);
      // The parts of a stack on a logarithmic axis cannot be compared.
      if (!this.y.ends && !this.y.rows && !this.marks.some((mark) => mark.isArea)) unit.append(this.scaleButton());
      this.field = element("div", { className: "field", tabIndex: 0, onkeydown: (event) => this.step(event) });
      this.field.setAttribute("role", "img");
      this.field.setAttribute("aria-label", this.y.label);
      box.append(unit, this.legend, this.field);
      if (!this.bare) box.append(element("p", { className: "unit below" }, this.x.label));
      this.draw();
      new ResizeObserver(() => this.u.setSize(this.size())).observe(this.field);
    }

    key(mark) {
      const swatch = element("span", { className: `swatch ${["areas", "blocks", "band", "dots"].includes(mark.kind) ? mark.kind : "line"}${mark.hollow ? " hollow" : ""}` });
      swatch.style.color = `var(--${mark.ink})`;
      swatch.style.borderTopWidth = `${Math.min(mark.width, 4)}px`;
      if (mark.dash.length) swatch.style.borderTopStyle = mark.dash[0] > 2 ? "dashed" : "dotted";
      const button = element("button", { type: "button" }, swatch, element("span", {}, mark.legend ?? ""));
      if (!mark.isLevel && !["band", "upright"].includes(mark.kind)) button.append((mark.value = element("b", { className: "value" })));
      button.setAttribute("aria-pressed", "true");
      button.onclick = () => {
        const isShown = this.hidden.delete(mark) || !this.hidden.add(mark);
        button.setAttribute("aria-pressed", isShown);
        this.stack();
        this.marks.forEach((other, n) => other.owner === mark && this.u.setSeries(n + 1, { show: isShown }));
        if (mark.isArea) this.u.redraw();
      };
      return button;
    }

    scaleButton() {
      const label = () => (this.isLog ? "Linear scale" : "Log scale");
      const button = element("button", { type: "button", textContent: label() });
      button.onclick = () => {
        const { min, max } = this.u.scales.x;
        this.isLog = !this.isLog;
        button.textContent = label();
        this.u.destroy();
        this.draw();
        this.zoom(min, max);
      };
      return button;
    }

    // Lay the areas that are shown on top of each other.
    stack() {
      const tops = [];
      for (const mark of this.shown().filter((mark) => mark.isArea)) {
        mark.heights ??= mark.points;
        mark.points = mark.heights.map(([at, value], n) => [at, typeof value === "number" ? (tops[n] ?? 0) + value : value]);
        mark.boxes = [];
        for (let n = 0; n < mark.points.length; n += 2) {
          const [[from, top], [to]] = [mark.points[n], mark.points[n + 1]];
          if (typeof top === "number") mark.boxes.push([from, to, tops[n] ?? 0, top]);
        }
        mark.points.forEach(([, top], n) => (tops[n] = top ?? tops[n]));
      }
    }

    size() {
      return { width: this.field.clientWidth, height: this.height + (this.bare ? 12 : 34) };
    }

    shown() {
      return this.marks.filter((mark) => !this.hidden.has(mark.owner));
    }

    // Least and greatest value of what is shown between two places.
    range(low, high) {
      if (this.y.rows) return [0, this.y.rows.length];
      if (this.y.ends) return this.y.ends;
      // A step that is wider than the field is in it, too.
      const margin = this.width() ?? 0;
      const isInside = ([x, y]) => typeof y === "number" && x >= low - margin && x <= high + margin;
      const values = this.shown().flatMap((mark) => {
        const ys = mark.points.filter(isInside).map(([, y]) => y);
        const across = mark.kind === "across" ? [mark.points[0][1]] : [];
        return [...ys, ...across, ...(mark.intervals ?? []).flatMap((interval) => interval ?? [])];
      });
      const positive = values.filter((value) => value > 0);
      const most = positive.reduce((a, b) => Math.max(a, b), 0);
      if (!this.isLog) return [0, most > 0 ? uPlot.rangeNum(0, most, 0.05, true)[1] : 1];
      const least = positive.reduce((a, b) => Math.min(a, b), Infinity);
      return most > 0 ? rounded(least * 0.95, most * 1.05) : [1, 10];
    }

    draw() {
      const { x, y, marks } = this;
      const xs = marks.flatMap((mark) => mark.points.map(([at]) => at).filter(Number.isFinite));
      const [least, most] = [xs.reduce((a, b) => Math.min(a, b), Infinity), xs.reduce((a, b) => Math.max(a, b), -Infinity)];
      this.full = x.ends ?? (x.log ? rounded(least * 0.95, most * 1.05) : [0, most]);
      const scales = {
        x: { time: false, distr: x.log ? 3 : 1, range: (u, low, high) => [low, high] },
        y: { distr: this.isLog ? 3 : 1, dir: y.rows ? -1 : 1, range: (u) => this.range(u.scales.x.min ?? this.full[0], u.scales.x.max ?? this.full[1]) },
      };
      const axis = (described, scale) => ({
        stroke: () => ink("quiet"),
        font: "13px system-ui, sans-serif",
        ticks: { show: false },
        filter: (u, splits) => splits,
        ...(splits(described, scale) && { splits: splits(described, scale) }),
      });
      const grid = { show: true, stroke: () => ink("grid"), width: 1 };
      const opts = {
        ...this.size(),
        scales,
        legend: { show: false },
        padding: [8, 24, 0, 0],
        axes: [
          { ...axis(x, scales.x), grid: { show: false }, size: this.bare ? 4 : 26, space: 70, values: (u, all) => all.map(this.bare ? () => "" : tick(x)) },
          { ...axis(y, scales.y), grid: { ...grid, show: !y.rows }, size: this.field.clientWidth < 480 ? 56 : 68, space: 34, values: (u, all) => all.map(y.rows ? (at) => y.rows[Math.floor(at)] : tick(y)) },
        ],
        series: [
          {},
          ...marks.map((mark) => ({
            show: !this.hidden.has(mark.owner),
            scale: "y",
            width: mark.width,
            dash: mark.dash,
            stroke: () => ink(mark.band ? "quiet" : mark.ink),
            fill: () => ink(mark.hollow ? "paper" : mark.ink),
            points: { show: false },
            paths: (u) => (mark.band ? null : path(u, mark)),
          })),
        ],
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false }, bind: { dblclick: () => () => this.zoom(...this.full) }, sync: { key: this.sync, scales: ["x", null], filters: { pub: publishes, sub: publishes } } },
        hooks: {
          drawClear: [(u) => this.bands(u)],
          setCursor: [(u) => this.read(u)],
          setScale: [(u, key) => key === "x" && this.spread(u)],
        },
      };
      this.u = new uPlot(opts, [this.full, ...marks.map(() => [null, null])], this.field);
    }

    // Parts of the field lie below its grid.
    bands(u) {
      for (const mark of this.shown().filter((mark) => mark.band)) {
        u.ctx.save();
        u.ctx.beginPath();
        u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
        u.ctx.clip();
        u.ctx.fillStyle = ink(mark.ink);
        u.ctx.fill(path(u, mark).fill);
        // Its edges, where they are not those of the field.
        u.ctx.strokeStyle = ink("quiet");
        u.ctx.lineWidth = devicePixelRatio;
        u.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
        u.ctx.beginPath();
        for (const edge of mark.band.map((end) => u.valToPos(end, "x", true)).filter((at) => at > u.bbox.left && at < u.bbox.left + u.bbox.width)) {
          u.ctx.moveTo(edge, u.bbox.top);
          u.ctx.lineTo(edge, u.bbox.top + u.bbox.height);
        }
        u.ctx.stroke();
        u.ctx.restore();
      }
    }

    zoom(min, max) {
      this.u.setScale("x", { min, max });
    }

    // Charts over the same axis show the same part of it.
    spread(u) {
      const { min, max } = u.scales.x;
      this.reset.hidden = min === this.full[0] && max === this.full[1];
      for (const { u: other } of this.others()) {
        if (other.scales.x.min !== min || other.scales.x.max !== max) other.setScale("x", { min, max });
      }
    }

    // Other charts over the same axis.
    others() {
      return all.filter((panel) => panel !== this && panel.sync === this.sync);
    }

    // Width of a step of the charts over this axis.
    width() {
      const steps = [this, ...this.others()].flatMap((panel) => panel.marks).map((mark) => mark.shape.steps ?? mark.shape.areas);
      return steps.find((steps) => steps)?.width;
    }

    // A colour's values, up to those of the next one.
    span(mark) {
      const next = this.marks[this.marks.indexOf(mark) + 1]?.legend;
      if (/below|more/.test(mark.legend)) return mark.legend;
      return next ? `${mark.legend} to ${next.replace(" or more", "")}` : `${mark.legend} or more`;
    }

    // Write the values under the pointer beside their keys.
    read(u) {
      const { left, top } = u.cursor;
      const isOver = left !== null && left !== undefined && left >= 0;
      const under = isOver ? u.posToVal(left, "x") : null;
      // An axis of few sizes has values at these alone.
      const x = isOver && this.x.ticks?.length ? nearest(this.x.ticks.map((at) => [at, at]), under) : under;
      const y = isOver && top >= 0 ? u.posToVal(top, "y") : null;
      const width = this.width();
      const place = width ? Math.floor(x / width + 1e-6) * width : x;
      let said = isOver ? `${format[this.x.format](place)} ${quantity(this.x)}` : "";
      const reach = isOver ? Math.abs(u.posToVal(left + 12, "x") - under) : 0;
      for (const mark of this.marks) {
        const box = isOver && mark.isLevel && y !== null ? mark.found(x, y) : null;
        if (box) {
          const where = this.y.rows ? `${this.y.label.split(" by ")[1]} ${this.y.rows[box[2]]}` : `${format[this.y.format](box[2])} to ${format[this.y.format](box[3])}`;
          said += `, ${where}: ${this.span(mark)}`;
        }
        const value = isOver && !mark.isLevel ? mark.at(x, y, reach) : null;
        if (mark.value) mark.value.textContent = value === null || value === undefined ? "" : format[this.y.format](value);
      }
      this.at.textContent = said;
    }

    // Move the crosshair by keys.
    step(event) {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") this.zoom(...this.full);
      if (!by) return;
      event.preventDefault();
      const { min, max } = this.u.scales.x;
      const width = this.width() ?? (max - min) / 100;
      const from = this.u.cursor.left >= 0 ? this.u.posToVal(this.u.cursor.left, "x") : min - width / 2;
      const to = Math.min(Math.max(from + by * width, min), max);
      this.u.setCursor({ left: this.u.valToPos(to, "x"), top: 0 }, true, true);
    }
  }

  for (const description of document.querySelectorAll("figure > script")) {
    const box = element("div", { className: "charts" });
    description.before(box);
    try {
      for (const data of JSON.parse(description.textContent)) {
        all.push(new Panel(box.appendChild(element("div", { className: "panel" })), data));
      }
      description.parentElement.classList.add("live");
    } catch (error) {
      // The pictures stay.
      box.remove();
      console.error(error);
    }
  }
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", () => all.forEach((panel) => panel.u.redraw(true)));

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
