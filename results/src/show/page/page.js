// Script of a page: draws a run over time and by percentile with uPlot, sorts tables, and gives readers what they take away.
// Every figure is on the page without it. `crawlmark` shows what a run that goes on has more of.
{
  const root = document.documentElement;
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
  const css = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const is_small = () => innerWidth <= 760;
  const element = (tag, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };

  // Numbers as the text of the page has them.
  const digits = (value) => [2, 1, 0].map((n) => value.toFixed(n)).find((text) => text.replace(/\D/g, "").length <= 3);
  const count = (value) => Math.round(value).toLocaleString("en");
  const decimal = (value) => (value >= 100 ? count(value) : value >= 1 ? digits(value) : `${+value.toPrecision(3)}`);
  const micros = (us) => {
    for (const [unit, factor] of [["µs", 1], ["ms", 1e3], ["s", 1e6]]) {
      const text = digits(us / factor);
      if (text) return `${text} ${unit}`;
    }
    return `${(us / 1e6).toFixed(0)} s`;
  };
  const seconds = (s) => (s < 10 ? `${s.toFixed(2)} s` : s < 100 ? `${s.toFixed(1)} s` : `${count(s)} s`);
  const share = (part) => {
    const percent = part * 100;
    if (percent <= 0) return "0 %";
    if (percent < 0.1) return "<0.1 %";
    if (percent > 99.9 && percent < 100) return ">99.9 %";
    return `${percent.toFixed((percent >= 9.95 && percent < 99) || percent >= 100 ? 0 : 1)} %`;
  };
  const shown = { rate: (value) => (value ? `${decimal(value)}/s` : "0"), micros, count: decimal, share };
  const short = (value) => (value >= 1e6 ? `${+(value / 1e6).toPrecision(3)}M` : value >= 1e4 ? `${+(value / 1e3).toPrecision(3)}k` : (+value.toPrecision(3)).toLocaleString("en"));
  const time_tick = (us) => (us >= 1e6 ? `${+(us / 1e6).toPrecision(3)} s` : us >= 1e3 ? `${+(us / 1e3).toPrecision(3)} ms` : us ? `${+us.toPrecision(3)} µs` : "0");
  const ticked = { rate: short, count: short, micros: time_tick, share: (part) => `${+(part * 100).toPrecision(2)} %` };

  // Ticks at 1, 2 and 5 of each decade; at decades alone where these are too many.
  const logarithmic = (low, high) => {
    const all = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++) all.push(...[1, 2, 5].map((m) => m * 10 ** k));
    const inside = all.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    return inside.length <= 5 ? inside : inside.filter((value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9);
  };
  const linear = (most, lines) => {
    if (!lines || !(most > 0)) return [];
    const raw = most / lines, power = 10 ** Math.floor(Math.log10(raw));
    const by = [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= raw);
    return Array.from({ length: Math.floor(most / by + 1e-9) + 1 }, (_, i) => i * by);
  };

  // More of text, axes and lines on a slide.
  let scale = 1;
  const font = (weight = "") => `${weight} ${12 * scale}px ${css("sans")}`.trim();
  const axis_y = (values, splits) => ({
    size: (is_small() ? 50 : 56) * scale, gap: 6, font: font(), stroke: css("quiet"), filter: (_, at) => at, values: (_, at) => at.map(values), splits, grid: { stroke: css("grid"), width: 1 }, ticks: { show: false },
  });
  const axis_x = (is_shown, [unit, name] = [1, "s"]) => ({
    size: is_shown ? 26 * scale : 0, gap: 4, font: font(), stroke: css("quiet"), space: 64 * scale, grid: { show: false }, ticks: { show: is_shown, stroke: css("rule"), width: 1, size: 4 },
    incrs: [-3, -2, -1, 0, 1, 2, 3].flatMap((k) => [1, 2, 5].map((m) => m * 10 ** k * unit)),
    values: (_, at) => at.map((value, i) => (is_shown ? `${+(value / unit).toFixed(3)}${i === at.length - 1 ? ` ${name}` : ""}` : "")),
  });
  const line = (colour, width, more = {}) => ({ stroke: css(colour), points: { show: false }, paths: uPlot.paths.linear(), ...more, width: width * Math.sqrt(scale), dash: more.dash?.map((n) => n * scale) });

  // Text on a chart, with a halo of paper.
  const write = (ctx, text, x, y, colour = "text") => {
    Object.assign(ctx, { lineWidth: 4 * devicePixelRatio, strokeStyle: css("paper"), fillStyle: css(colour), lineJoin: "round" });
    ctx.strokeText(text, x, y);
    ctx.fillText(text, x, y);
  };
  const within = ({ ctx, bbox: { left, top, width, height } }, draw) => {
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    draw(ctx);
    ctx.restore();
  };

  const stack = (first) => {
    let data = first, view = [data.from, data.to], charts = [];
    const place = $("#stack"), range = $("#range"), usual_range = range.textContent, said = $("#said"), at_tag = $(".at", place), hidden = new Set();
    const time_unit = () => (view[1] - view[0] <= 300 ? [1, "s"] : view[1] - view[0] <= 18000 ? [60, "min"] : [3600, "h"]);
    const is_drawn = ({ drawn }, id) => drawn !== "hidden" && !hidden.has(id);
    const value_at = ({ step, values }, x) => values[Math.floor((x - data.from) / step + 1e-6)] ?? null;

    // Columns of a panel: those of its finest series. Each has a point at its start and one at its end.
    const values = ({ series, heat }, n) => {
      const step = Math.min(...series.map((one) => one.step), heat?.step ?? Infinity, data.to - data.from);
      const starts = Array.from({ length: Math.max(1, Math.ceil((data.to - data.from) / step - 1e-6)) }, (_, i) => data.from + i * step);
      const twice = (values) => values.flatMap((value) => [value, value]);
      const below = starts.map(() => 0), sums = [], lines = [];
      series.forEach((one, i) => {
        const own = starts.map((start) => (is_drawn(one, `${n}.${i}`) ? value_at(one, start + step / 2) : null));
        if (one.drawn === "area") sums.unshift(own.map((value, at) => (value === null ? null : (below[at] += value))));
        else lines.push(own);
        if (one.drawn === "cased") lines.push(own);
      });
      return [starts.flatMap((start) => [start, Math.min(start + step, data.to)]), ...[...sums, ...lines].map(twice)];
    };
    // Drawn from the highest sum down; a pixel of paper parts one from the next.
    const drawn_as = (panel) => {
      const areas = panel.series.filter(({ drawn }) => drawn === "area").reverse();
      const others = panel.series.filter(({ drawn }) => drawn !== "area").flatMap(({ drawn, colour }) => ({
        line: [line(colour, 1.75)], level: [line(colour, 1.75, { fill: css("wash") })], dash: [line(colour, 1.5, { dash: [5, 4] })], broken: [line(colour, 1.75, { dash: [6, 3] })],
        cased: [line("paper", 4.5), line(colour, 2)], hidden: [line(colour, 0)],
      })[drawn]);
      return [{}, ...areas.map(({ colour }, i) => line("paper", i ? 1 : 0, { fill: css(colour), fillTo: () => 0 })), ...others];
    };

    const bands = (u) => within(u, (ctx) => {
      for (const { from, to, tone, is_shaded } of data.events) {
        if (!is_shaded) continue;
        const [left, right] = [from, to].map((s) => u.valToPos(s, "x", true));
        ctx.fillStyle = css(`${tone}band`);
        ctx.fillRect(left, u.bbox.top, Math.max(right - left, 2), u.bbox.height);
        if (to - from > 0) continue;
        ctx.fillStyle = css(tone);
        ctx.fillRect(left - 1, u.bbox.top, 2, u.bbox.height);
      }
    });
    const stops = () => [0, 1, 2, 3, 4, 5].map((n) => css(`heat${n}`)).filter(Boolean).map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    const heat = ({ step, per_decade, columns }) => (u) => within(u, (ctx) => {
      const colours = stops();
      const colour = (part) => {
        const at = clamp(part, 0, 1) * (colours.length - 1), i = Math.min(Math.floor(at), colours.length - 2);
        return `rgb(${colours[i].map((value, k) => Math.round(value + (colours[i + 1][k] - value) * (at - i)))})`;
      };
      const edge = (cell) => Math.round(u.valToPos(10 ** (cell / per_decade), "y", true));
      columns.forEach((column, i) => {
        if (!column) return;
        const [lowest, ...counts] = column, all = counts.reduce((a, b) => a + b, 0);
        const [left, right] = [i, i + 1].map((n) => Math.floor(u.valToPos(Math.min(data.from + n * step, data.to), "x", true)));
        if (right < u.bbox.left || left > u.bbox.left + u.bbox.width) return;
        counts.forEach((n, k) => {
          if (!n) return;
          const top = edge(lowest + k + 1);
          ctx.fillStyle = colour(Math.log(n / all / 0.003) / Math.log(0.4 / 0.003));
          ctx.fillRect(left, top, Math.max(right - left, 1), edge(lowest + k) - top);
        });
      });
    });
    // Peaks beyond the axis say so.
    const peaks = (u) => {
      const { ctx, bbox, data: [x, all] } = u, top = u.scales.y.max, r = devicePixelRatio;
      ctx.save();
      Object.assign(ctx, { font: `600 ${12 * scale * r}px ${css("sans")}`, textBaseline: "top" });
      let free = -Infinity;
      all.forEach((value, i) => {
        // Each column has two points.
        if (i % 2 || !(value > top) || value <= (all[i - 2] ?? 0) || value < (all[i + 2] ?? 0)) return;
        const at = u.valToPos(x[i], "x", true), label = `▲ ${short(value)}`, width = ctx.measureText(label).width + 8 * r;
        if (at < Math.max(bbox.left, free) || at > bbox.left + bbox.width) return;
        const is_left = bbox.left + bbox.width - at > width;
        free = at + width;
        ctx.textAlign = is_left ? "left" : "right";
        write(ctx, label, at + (is_left ? 7 : -4) * r, bbox.top + 2 * r);
      });
      ctx.restore();
    };

    // The vertical axis of a panel: its scale, and its ticks.
    const axis_of = (panel, n) => {
      const { format, heat, lines, top } = panel;
      if (heat) {
        const used = heat.columns.filter(Boolean), seen = panel.series.flatMap(({ values }) => values).filter((value) => value > 0);
        const ends = used.flatMap(([lowest, ...counts]) => [10 ** (lowest / heat.per_decade), 10 ** ((lowest + counts.length) / heat.per_decade)]);
        const [low, high] = [Math.min(...(used.length ? ends : seen)) / 1.07, Math.max(...ends, ...seen, 1) * 1.1];
        return { scale: { distr: 3, log: 10, range: () => [low, high] }, splits: () => logarithmic(low, high), ends: [low, high] };
      }
      if (top) return { scale: { range: () => [0, top] }, splits: () => linear(top, lines) };
      if (format === "share") {
        const busiest = Math.max(...panel.series.flatMap(({ values }) => values), 0), most = busiest > 0.45 ? Math.max(1.05, busiest * 1.05) : busiest > 0.09 ? 0.5 : 0.1;
        return { scale: { range: () => [0, most] }, splits: () => (most > 1 ? linear(Math.floor(most), 2) : [0, most / 2, most]) };
      }
      if (format === "micros") {
        const seen = (high) => (high > 0 ? high * 1.1 : 1);
        return { scale: { range: (_, __, high) => [0, seen(high)] }, splits: (_, __, ___, high) => linear(high, lines) };
      }
      // A burst would flatten all else: its peak is clipped, and says so.
      const tops = (values(panel, n)[1] ?? []).filter((value) => value !== null).sort((a, b) => a - b), levels = panel.series.filter(({ drawn }) => drawn === "dash");
      const usual = tops[Math.floor(tops.length * 0.97)] ?? 0, peak = tops.at(-1) ?? 0, level = Math.max(...levels.flatMap((series) => series.values), 0);
      const most = Math.max((peak > 2.5 * usual && usual > 0 ? 1.75 * usual : peak) * 1.06, level * (format === "rate" ? 1.25 : 1.12), 1e-6);
      return { scale: { range: () => [0, most] }, splits: () => linear(most, lines), is_clipped: most < peak };
    };

    const options = (panel, n, width, height, is_last) => {
      const { scale: y, splits, is_clipped } = axis_of(panel, n);
      return {
        width, height: height + (is_last ? 26 * scale : 0), padding: [6, 16 * scale, is_last ? 0 : 6, 0], legend: { show: false }, cursor: { show: false },
        scales: { x: { time: false, range: () => view }, y }, axes: [axis_x(is_last, time_unit()), axis_y(ticked[panel.format], splits)], series: drawn_as(panel),
        hooks: { drawClear: [bands, ...(panel.heat ? [heat(panel.heat)] : [])], draw: is_clipped ? [peaks] : [] },
      };
    };
    const build = () => {
      charts.forEach(({ u }) => u.destroy());
      charts = data.panels.flatMap((panel, n) => {
        const plot = $(`[data-plot="${panel.name}"]`);
        if (!plot) return [];
        plot.textContent = "";
        const is_last = n === data.panels.length - 1, own = options(panel, n, plot.clientWidth, panel.height[is_small() ? 1 : 0], is_last);
        Object.assign(own, { cursor: {
          sync: { key: "run", scales: ["x", null] }, y: false, points: { show: false }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => zoom(data.from, data.to) },
        } });
        own.hooks.setCursor = [({ cursor: { left } }) => read(left < 0 ? null : u.posToVal(left, "x"))];
        own.hooks.setSelect = [({ select: { left, width } }) => width > 4 && zoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"))];
        const u = new uPlot(own, values(panel, n), plot);
        u.over.style.touchAction = "pan-y";
        u.over.addEventListener("touchmove", ({ touches: [touch] }) => u.setCursor({ left: touch.clientX - u.over.getBoundingClientRect().left, top: 10 }), { passive: true });
        if (panel.heat) histogram(plot.closest(".panel"), panel, axis_of(panel, n).ends);
        return [{ u, panel, n }];
      });
      // uPlot lays its parts out a moment later.
      requestAnimationFrame(marks);
    };

    // The distribution of the whole run beside the one over time, on the same axis.
    const histogram = (panel, { heat: { per_decade, columns }, height: [height] }, [low, high]) => {
      const canvas = $(".hist", panel), width = canvas?.clientWidth, counts = [];
      if (!width) return;
      for (const [lowest, ...own] of columns.filter(Boolean)) own.forEach((n, k) => (counts[lowest + k] = (counts[lowest + k] ?? 0) + n));
      Object.assign(canvas, { width: width * devicePixelRatio, height: height * devicePixelRatio });
      canvas.style.height = `${height}px`;
      const ctx = canvas.getContext("2d"), most = Math.max(...counts.filter(Boolean));
      const y = (us) => 6 + (height - 12) * (1 - Math.log(us / low) / Math.log(high / low));
      ctx.scale(devicePixelRatio, devicePixelRatio);
      ctx.fillStyle = css("heat2");
      counts.forEach((n, cell) => {
        const [bottom, top] = [cell, cell + 1].map((at) => y(10 ** (at / per_decade)));
        ctx.fillRect(0, top, Math.max(Math.sqrt(n / most) * width, 1), Math.max(bottom - top - 0.5, 0.75));
      });
      ctx.fillStyle = css("grid");
      ctx.fillRect(0, 0, 1, height);
    };

    // Values of the run stand in the rails, or those at the crosshair.
    const outputs = $$("[data-at]", place).map((output) => ({ output, usual: output.textContent, at: output.dataset.at.split(".").map(Number) }));
    const text_at = ([n, i], x) => {
      const panel = data.panels[n], value = value_at(panel.series[i], clamp(x, data.from, data.to - 1e-6));
      if (value === null) return "–";
      return panel.series[i].is_about ? `≈ ${micros(+value.toPrecision(2))}` : shown[panel.format](value);
    };
    const left_of = (x) => {
      const over = charts[0].u.over.getBoundingClientRect();
      return over.left - $(".lane", place).getBoundingClientRect().left + ((x - view[0]) / (view[1] - view[0])) * over.width;
    };
    let wanted = null, is_due = false;
    const read = (x) => {
      wanted = x;
      if (is_due) return;
      is_due = true;
      requestAnimationFrame(() => {
        is_due = false;
        const is_on = wanted !== null && wanted >= view[0] && wanted <= view[1];
        place.classList.toggle("is-at", is_on);
        at_tag.hidden = !is_on;
        if (is_on) {
          at_tag.textContent = seconds(wanted);
          at_tag.style.left = `${left_of(wanted)}px`;
        }
        for (const { output, usual, at } of outputs) output.textContent = is_on ? text_at(at, wanted) : usual;
      });
    };
    const marks = () => {
      if (!charts.length) return;
      const buttons = $$(".mark", place).map((button) => ({ button, event: data.events[button.dataset.event] }));
      for (const { button, event } of buttons) {
        const x = event && (Math.max(event.from, view[0]) + Math.min(event.to, view[1])) / 2;
        button.hidden = !event || event.to < view[0] || event.from > view[1];
        button.classList.remove("tight");
        // A name without a number ends with the stack.
        const last = $("i", button) ? Infinity : place.clientWidth - button.offsetWidth + 10;
        if (!button.hidden) button.style.left = `${Math.min(left_of(x), last)}px`;
      }
      // A label that would meet the next number, or the edge, gives way; so does a number that would meet the one before it.
      let free = -Infinity;
      const all = buttons.filter(({ button }) => !button.hidden).map(({ button }) => ({ button, left: parseFloat(button.style.left) })).sort((a, b) => a.left - b.left);
      const seen = all.filter(({ button, left }) => {
        button.hidden = left < free;
        if (!button.hidden && $("i", button)) free = left + 26;
        return !button.hidden;
      });
      seen.forEach(({ button, left }, i) => {
        const end = left + button.offsetWidth - 8;
        const is_tight = end > (seen[i + 1]?.left ?? Infinity) - 12 || end > left_of(view[1]) + 40;
        button.classList.toggle("tight", is_tight);
        button.hidden = is_tight && !$("i", button);
      });
    };
    const zoom = (from, to) => {
      const least = Math.min(4 * Math.min(...data.panels.flatMap(({ series }) => series.map(({ step }) => step))), data.to - data.from);
      if (to - from < least) [from, to] = [(from + to - least) / 2, (from + to + least) / 2];
      view = [Math.max(from, data.from), Math.min(to, data.to)];
      const is_whole = view[1] - view[0] > (data.to - data.from) * 0.999;
      $("#whole").hidden = is_whole;
      range.textContent = is_whole ? usual_range : `${seconds(view[0])} to ${seconds(view[1])}`;
      for (const { u } of charts) {
        u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        u.setScale("x", { min: view[0], max: view[1] });
      }
      marks();
    };
    $("#whole").onclick = () => zoom(data.from, data.to);
    const show = ({ from, to }) => {
      const wide = Math.max((to - from) * 3.4, (data.to - data.from) / 20);
      zoom((from + to - wide) / 2, (from + to + wide) / 2);
      place.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion:reduce)").matches ? "auto" : "smooth" });
    };
    const bind = () => $$("[data-event]").forEach((button) => {
      button.hidden = false;
      button.onclick = () => show(data.events[button.dataset.event]);
    });
    bind();

    // Each name in a rail hides its series, and shows it again.
    for (const { output, at } of outputs) {
      if (data.panels[at[0]].series[at[1]].drawn === "hidden") continue;
      const row = output.parentElement, id = at.join("."), button = element("button", { type: "button" }, ...row.childNodes);
      button.setAttribute("aria-pressed", true);
      button.onclick = () => {
        if (!hidden.delete(id)) hidden.add(id);
        button.setAttribute("aria-pressed", !hidden.has(id));
        const chart = charts.find(({ n }) => n === at[0]);
        chart?.u.setData(values(chart.panel, chart.n), false);
        chart?.u.redraw(true);
      };
      row.append(button);
    }

    place.tabIndex = 0;
    let key_at = null;
    place.onkeydown = (event) => {
      if (event.target !== place) return;
      const span = view[1] - view[0], middle = clamp(key_at ?? (view[0] + view[1]) / 2, ...view), by = event.shiftKey ? span / 10 : span / 100;
      const act = {
        ArrowLeft: () => (key_at = clamp(middle - by, ...view)), ArrowRight: () => (key_at = clamp(middle + by, ...view)), Home: () => (key_at = view[0]), End: () => (key_at = view[1]),
        "+": () => zoom(middle - span / 4, middle + span / 4), "-": () => zoom(view[0] - span / 2, view[1] + span / 2), Escape: () => (zoom(data.from, data.to), (key_at = null)),
      }[event.key];
      if (!act || !charts.length) return;
      event.preventDefault();
      act();
      const { u } = charts[0];
      u.setCursor(key_at === null ? { left: -10, top: -10 } : { left: ((key_at - view[0]) / (view[1] - view[0])) * u.over.clientWidth, top: 5 });
      if (key_at === null) return;
      read(key_at);
      const names = outputs.map(({ at: [n, i], at }) => `${data.panels[n].series[i].name} ${text_at(at, key_at)}`);
      said.textContent = `${seconds(key_at)}: ${names.join(", ")}`;
    };

    // A drag that zooms goes on; what is hidden is drawn once it is seen.
    const draw = () => {
      if (document.hidden || charts.some(({ u }) => u.select.width > 0)) return;
      build();
      read(wanted);
    };
    // What a run that goes on has more of: the ends of its lines from a time on. The zoom stays.
    const add = ({ from, to, at, panels, totals }) => {
      const is_whole = view[0] <= data.from && view[1] >= data.to;
      data.panels.forEach(({ heat, series }, n) => [...(heat ? [heat] : []), ...series].forEach((line, i) => {
        const key = line === heat ? "columns" : "values", first = Math.round((from - data.from) / line.step);
        line[key] = [...line[key].slice(first, first + Math.floor((at - from) / line.step + 1e-6)), ...panels[n][i]];
      }));
      Object.assign(data, { from, to });
      if (is_whole || view[0] < from) view = [from, to];
      for (const it of outputs) it.output.textContent = it.usual = totals[it.at[0]][it.at[1]];
      draw();
    };
    const find = ({ list, marks: buttons, events }) => {
      data.events = events;
      for (const button of $$(".mark", place)) button.remove();
      $(".lane", place).insertAdjacentHTML("afterbegin", buttons);
      $("#findings").outerHTML = list;
      bind();
      draw();
    };
    // A panel for a slide.
    const again = (n, width, height, is_last, at) => new uPlot(options(data.panels[n], n, width, height, is_last), values(data.panels[n], n), at);
    return { build, draw, add, find, again, data: () => data, view: () => view };
  };

  // Percentiles, on an axis of nines.
  let curve;
  const percentiles = ({ nines, response, service, points }) => {
    const place = $('[data-plot="percentiles"]'), hint = $("#percentile"), all = [...response, ...(service ?? [])].filter((us) => us > 0);
    const usual = (hint.dataset.usual ??= hint.textContent);
    const [low, high, end] = [Math.min(...all) * 0.85, Math.max(...all) * 1.5, nines.at(-1)];
    const labels = (u) => {
      const { ctx, bbox } = u, r = devicePixelRatio, taken = [];
      ctx.save();
      Object.assign(ctx, { font: `600 ${12 * r}px ${css("sans")}`, textAlign: "left", textBaseline: "alphabetic" });
      for (const [name, at, us, text] of points) {
        const x = u.valToPos(at, "x", true), y = u.valToPos(us, "y", true), is_right = x > bbox.left + bbox.width - 90 * r;
        ctx.fillStyle = css("blue");
        ctx.beginPath();
        ctx.arc(x, y, 3.5 * r, 0, 7);
        ctx.fill();
        const label = `${name} ${text}`, width = ctx.measureText(label).width, left = is_right ? x + 4 * r - width : x + 2 * r, top = name === "max" ? y - 9 * r : y + 17 * r;
        if (taken.some(([a, b, c]) => left < b + 6 * r && left + width > a - 6 * r && Math.abs(c - top) < 14 * r)) continue;
        taken.push([left, left + width, top]);
        write(ctx, label, left, top);
      }
      ctx.restore();
    };
    const name = (n) => `${(100 - 100 * 10 ** -n).toFixed(Math.max(0, Math.ceil(n)))} %`;
    curve?.destroy();
    place.textContent = "";
    curve = new uPlot(
      {
        width: place.clientWidth, height: is_small() ? 240 : 292, padding: [14, is_small() ? 14 : 26, 0, 0], legend: { show: false },
        scales: { x: { time: false, range: () => [0, end * 1.01] }, y: { distr: 3, log: 10, range: () => [low, high] } },
        axes: [
          { ...axis_x(true), size: 30, grid: { stroke: css("grid"), width: 1 }, splits: () => [0, 1, 2, 3, 4, 5, 6, 7, 8].filter((n) => n <= end + 0.02), values: (_, at) => at.map((n) => (n ? `${+(100 - 100 * 10 ** -n).toFixed(n)} %` : "0")) },
          axis_y(time_tick, () => logarithmic(low, high)),
        ],
        series: [{}, ...(service ? [line("quiet", 1.5, { dash: [5, 4] })] : []), line("blue", 2.5)],
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        hooks: {
          draw: [labels],
          setCursor: [(u) => {
            const at = u.cursor.left < 0 ? Infinity : u.posToVal(u.cursor.left, "x"), i = nines.findIndex((n) => n >= at);
            hint.textContent = i < 0 ? usual : `${name(nines[i])} took ${micros(response[i])} or less`;
          }],
        },
      },
      [nines, ...(service ? [service] : []), response], place,
    );
  };

  let charts = $("#stack") && stack(JSON.parse($("#data").textContent));
  const build = () => {
    charts?.build();
    if (charts?.data().percentiles) percentiles(charts.data().percentiles);
  };
  build();
  const draw = () => charts?.draw();
  globalThis.crawlmark = { begin: (data) => draw((charts = $("#stack") && stack(data))), add: (next) => charts.add(next), find: (next) => charts.find(next), draw };

  // The reader's light or dark, or the one chosen here; always light on paper, and no wider.
  for (const button of $$("button[id], button[data-copies]")) if (button.id !== "whole") button.hidden = false;
  const theme = $("#theme"), is_dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme:dark)").matches);
  theme.onclick = () => {
    root.dataset.theme = is_dark() ? "light" : "dark";
    build();
  };
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", build);
  let before_print;
  addEventListener("beforeprint", () => {
    before_print = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("paper");
    for (const details of $$("details:not([open])")) {
      details.dataset.folded = "";
      details.open = true;
    }
    build();
  });
  addEventListener("afterprint", () => {
    if (before_print) root.dataset.theme = before_print;
    else delete root.dataset.theme;
    root.classList.remove("paper");
    for (const details of $$("details[data-folded]")) {
      delete details.dataset.folded;
      details.open = false;
    }
    build();
  });
  let width = innerWidth, resizing;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(resizing);
    resizing = setTimeout(build, 120);
  });
  // A link to a folded section opens it.
  const unfold = () => location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)))?.setAttribute("open", "");
  addEventListener("hashchange", unfold);
  unfold();

  // Tables: a click on a heading sorts by it, a second one the other way round.
  const units = { µs: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, k: 1e3, M: 1e6, G: 1e9, kB: 1e3, KiB: 1024, MB: 1e6, MiB: 1048576, GB: 1e9, GiB: 1073741824 };
  const sortable = (text) => {
    const [, sign, value, unit] = /^\D*?([-−+]?)([\d.,]*\d)\s*([^\d\s/]*)/.exec(text.trim()) ?? [];
    return value === undefined ? null : (sign && sign !== "+" ? -1 : 1) * Number(value.replaceAll(",", "")) * (units[unit] ?? 1);
  };
  for (const heading of $$("thead th")) {
    const body = heading.closest("table").tBodies[0];
    // A table whose rows have names and no heading above them has another quantity in each; a row without a name belongs to that above it.
    const is_named = (row) => row.cells[0].textContent;
    if ($$("tr:not(.sum)", body).length < 2 || ![heading.parentElement, ...body.rows].every(is_named) || !heading.textContent) continue;
    const button = element("button", { type: "button", className: "sort" }, ...heading.childNodes);
    heading.append(button);
    button.onclick = () => {
      const is_up = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of $$("th", heading.parentElement)) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", is_up ? "ascending" : "descending");
      const text = (row) => row.cells[heading.cellIndex].textContent;
      const is_numeric = heading.classList.contains("number");
      const compared = (a, b) => (is_numeric ? (sortable(text(a)) ?? -Infinity) - (sortable(text(b)) ?? -Infinity) || 0 : text(a).localeCompare(text(b), "en", { numeric: true }));
      body.prepend(...$$("tr:not(.sum)", body).sort((a, b) => (is_up ? compared(a, b) : compared(b, a))));
    };
  }

  // What readers take away.
  const toast = (text) => {
    const place = $(".toast");
    place.textContent = text;
    place.classList.add("on");
    setTimeout(() => place.classList.remove("on"), 1800);
  };
  const copy = async (text) => {
    let is_copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = element("textarea", { value: text });
      document.body.append(area);
      area.select();
      is_copied = document.execCommand("copy");
      area.remove();
    }
    toast(is_copied ? "Copied" : "Not allowed to copy");
  };
  $("#copy").onclick = () => copy($("#text").textContent.trim());
  for (const button of $$("[data-copies]")) button.onclick = () => copy(document.getElementById(button.dataset.copies).textContent.trim());

  // A slide of 1600 x 900: verdict, figures, and the first two panels, drawn anew at this size.
  const slide = async () => {
    const canvas = element("canvas", { width: 1600, height: 900 }), ctx = canvas.getContext("2d"), ratio = devicePixelRatio;
    const text = (what, x, y, weight, size, colour = "text", most = 1472) => {
      ctx.font = `${weight} ${size}px ${css("sans")}`;
      ctx.fillStyle = css(colour);
      ctx.fillText(what, x, y, most);
      return x + Math.min(ctx.measureText(what).width, most);
    };
    const tint = $(".hero").className.replace(/.*t-/, ""), pill = $(".pill");
    ctx.fillStyle = css("paper");
    ctx.fillRect(0, 0, 1600, 900);
    ctx.fillStyle = css(`${tint}wash`);
    ctx.fillRect(0, 0, 1600, 150);
    if (pill) text(pill.textContent.trim(), 64, 56, 650, 22, pill.classList[1]);
    text($("h1").textContent, 64, 112, 680, 44);
    $$(".figs > div").slice(0, 5).forEach((figure, i) => {
      const x = 64 + i * 302;
      text($("dt", figure).textContent, x, 196, 400, 21, "quiet");
      text($("small", figure)?.textContent ?? "", text($("dd span", figure).textContent, x, 250, 650, 52) + 6, 250, 560, 28, "quiet");
    });
    const off = element("div", { style: "position:absolute;left:-9999px;top:0" });
    document.body.append(off);
    scale = 1.6;
    let y = 306;
    for (const [n, height] of [[0, 190], [1, 272]].slice(0, charts?.data().panels.length ?? 0)) {
      const is_last = n === 1, drawn = charts.again(n, 1536, height, is_last, off), whole = height + (is_last ? 42 : 0);
      await new Promise(requestAnimationFrame);
      text($$(".panel h3 b")[n].textContent, 64, y, 640, 21);
      ctx.drawImage(drawn.ctx.canvas, 0, 0, 1536 * ratio, whole * ratio, 0, y + 8, 1536, whole);
      const [from, to] = charts.view(), { left, width } = drawn.bbox;
      let free = 300;
      if (n === 0) for (const event of [...charts.data().events].sort((a, b) => a.from - b.from)) {
        const x = (left + ((event.from - from) / (to - from)) * width) / ratio;
        if (event.label && x >= free && x < 1480) free = text(event.label, x, y, 640, 19, event.tone) + 16;
      }
      y += height + 46;
      drawn.destroy();
    }
    scale = 1;
    off.remove();
    text($("#source").textContent, 64, 882, 400, 17, "quiet");
    return canvas;
  };
  if ($("#save")) $("#save").onclick = async () => (await slide()).toBlob((blob) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: "crawlmark.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1e3);
  });
}
