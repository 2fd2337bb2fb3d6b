'use strict';
// Draws the page from the JSON in #data. Names come from models of strangers: they reach the page as text only, never as HTML.
(() => {
  const page = JSON.parse(document.getElementById('data').textContent);
  const report = page.report, layers = report.layers, $ = id => document.getElementById(id);
  const weights = new Map(page.weights.map(w => [w.name, w]));

  // ---- elements and numbers

  function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? '' : value);
    }
    node.append(...children.flat().filter(c => c !== null && c !== undefined && c !== ''));
    return node;
  }
  const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

  // The middle of a long name says least.
  const shorten = (name, most) => {
    const letters = [...name];
    if (letters.length <= most) return name;
    const tail = Math.floor((most - 1) / 2);
    return letters.slice(0, most - 1 - tail).join('') + '…' + letters.slice(-tail).join('');
  };
  const minus = text => text.replaceAll('-', '−');
  const fixed = (v, places) => minus(v.toFixed(places));
  const short = v => v === 0 ? '0' : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3
    ? minus(v.toExponential(2)) : minus(String(Number(v.toPrecision(4))));
  const count = n => n >= 1e9 ? `${short(n / 1e9)} G` : n >= 1e6 ? `${short(n / 1e6)} M` : n >= 1e4 ? `${short(n / 1e3)} k` : String(n);
  const percent = share => share === 0 ? '0 %' : share < 1e-5 ? '< 0.001 %' : `${Number((share * 100).toPrecision(share < 0.1 ? 2 : 4))} %`;
  const millis = us => us >= 1e5 ? `${fixed(us / 1e3, 0)} ms` : us >= 1e3 ? `${fixed(us / 1e3, 2)} ms` : `${fixed(us, us < 10 ? 2 : 1)} µs`;
  const decibels = e => !e ? null : e.exact ? 'exact' : e.sqnr_db === null || e.sqnr_db === undefined ? null : fixed(e.sqnr_db, 1);
  const fileName = path => path.split('/').pop() || path;
  const missing = v => v === null || v === undefined;
  const plural = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;

  // Pairs of digits in base 64, as numbers in [lo, hi].
  const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  function decode(text, lo = 0, hi = 1) {
    const values = [];
    for (let i = 0; i + 1 < text.length; i += 2)
      values.push(lo + (hi - lo) * (DIGITS.indexOf(text[i]) * 64 + DIGITS.indexOf(text[i + 1])) / 4095);
    return values;
  }

  // ---- axes

  function ticks(lo, hi, most) {
    if (!(hi > lo)) return [lo];
    const rough = (hi - lo) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find(m => m * power >= rough * 0.999);
    const values = [];
    for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; ++k) values.push(k * step);
    return values;
  }

  // A frame with a scale on both sides; x and y map values to places.
  function frame({ width, height, x, y, xLabel, yLabel, xTicks, yTicks, left = 46, label = '' }) {
    const top = 18, right = 16, bottom = 37;
    const across = v => left + (x[1] > x[0] ? (v - x[0]) / (x[1] - x[0]) : 0.5) * (width - left - right);
    const up = v => height - bottom - (y[1] > y[0] ? (v - y[0]) / (y[1] - y[0]) : 0.5) * (height - top - bottom);
    const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label });
    for (const [v, text] of yTicks) {
      root.append(svg('line', { class: 'grid', x1: left, x2: width - right, y1: up(v), y2: up(v) }),
        svg('text', { x: left - 6, y: up(v) + 3.5, 'text-anchor': 'end' }, text));
    }
    for (const [v, text] of xTicks) {
      root.append(svg('line', { class: 'axis', x1: across(v), x2: across(v), y1: height - bottom, y2: height - bottom + 4 }),
        svg('text', { x: across(v), y: height - bottom + 18, 'text-anchor': 'middle' }, text));
    }
    root.append(svg('line', { class: 'axis', x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
      svg('text', { x: (left + width - right) / 2, y: height - 3, 'text-anchor': 'middle' }, xLabel),
      svg('text', { x: 2, y: 10 }, yLabel));
    return { root, x: across, y: up, left, right: width - right, top, bottom: height - bottom };
  }
  const labelled = values => {
    const step = values.length > 1 ? values[1] - values[0] : 1;
    const places = Math.max(0, Math.min(8, Math.ceil(-Math.log10(step) - 1e-9)));
    return values.map(v => [v, Math.abs(v) >= 1e5 || step < 1e-4 ? short(v) : fixed(v, places)]);
  };

  const PLOT = { width: 300, height: 200 };
  const figure = (title, note, ...content) =>
    el('figure', { class: 'card' }, el('figcaption', {}, title, el('small', {}, note)), ...content);
  const keys = (...pairs) => el('div', { class: 'keys note' }, ...pairs.map(([kind, text]) => el('span', {}, el('i', { class: kind }), text)));
  const BOTH = () => keys(['reference', 'float'], ['other', 'INT8']);

  // Counts are logarithmic: ticks at powers of ten.
  function countTicks(most) {
    const top = Math.log1p(most), values = [];
    for (let n = 1; n <= most; n *= 10) values.push([Math.log1p(n) / top, count(n)]);
    const every = Math.ceil(values.length / 4);
    return [[0, '0'], ...values.filter((_, i) => (values.length - 1 - i) % every === 0 && values[i][0] > 0.12)];
  }

  // ---- plots of a drawer

  function limits(f, range, vertical) {
    return (range || []).map(v => vertical
      ? svg('line', { class: 'limit', x1: f.x(v), x2: f.x(v), y1: f.top, y2: f.bottom })
      : svg('line', { class: 'limit', x1: f.left, x2: f.right, y1: f.y(v), y2: f.y(v) }));
  }
  const inside = (range, lo, hi) => (range || []).filter(v => v >= lo && v <= hi);

  function histogram(p) {
    const h = p.hist, f = frame({
      ...PLOT, x: [h.lo, h.hi], y: [0, 1.04], xLabel: 'value', yLabel: 'elements (log)', label: 'Histogram of values',
      xTicks: labelled(ticks(h.lo, h.hi, 5)), yTicks: countTicks(h.most)
    });
    const outline = (text, closed) => {
      const n = decode(text), step = (h.hi - h.lo) / n.length;
      let path = closed ? `M${f.x(h.lo)},${f.y(0)}` : '';
      n.forEach((v, i) => {
        const a = f.x(h.lo + i * step), b = f.x(h.lo + (i + 1) * step), y = f.y(v);
        path += `${path ? 'L' : 'M'}${a.toFixed(1)},${y.toFixed(1)}L${b.toFixed(1)},${y.toFixed(1)}`;
      });
      return closed ? `${path}L${f.x(h.hi)},${f.y(0)}Z` : path;
    };
    const lines = inside(p.range, h.lo, h.hi);
    f.root.append(svg('path', { class: 'reference-area', d: outline(h.reference, true) }),
      svg('path', { class: 'other-line', d: outline(h.other, false) }), ...limits(f, lines, true));
    return figure('Values', lines.length ? 'dashed: where the codes end' : 'whole tensor, all samples', BOTH(), f.root);
  }

  function channelRanges(p) {
    const c = p.channels, n = c.reference_min.length / 2;
    const [a0, a1, b0, b1] = ['reference_min', 'reference_max', 'other_min', 'other_max'].map(k => decode(c[k], c.lo, c.hi));
    const f = frame({
      ...PLOT, x: [0, c.count], y: [c.lo, c.hi], xLabel: `channel (axis ${c.axis})`, yLabel: 'smallest to largest value',
      label: 'Ranges of channels', xTicks: labelled(ticks(0, c.count, 5)), yTicks: labelled(ticks(c.lo, c.hi, 5))
    });
    const wide = (f.right - f.left) / n;
    for (let i = 0; i < n; ++i) {
      const bar = (kind, lo, hi, part) => svg('rect', {
        class: kind, x: (f.left + wide * (i + (1 - part) / 2)).toFixed(2), width: Math.max(wide * part, 0.6).toFixed(2),
        y: f.y(hi).toFixed(1), height: Math.max(f.y(lo) - f.y(hi), 1).toFixed(1)
      });
      f.root.append(bar('reference-area', a0[i], a1[i], 0.9), bar('other', b0[i], b1[i], 0.35));
    }
    const lines = inside(p.range, c.lo, c.hi);
    f.root.append(...limits(f, lines, false));
    return figure('Channel ranges', `${plural(c.count, 'channel')}${c.each > 1 ? `, ${c.each} to a bar` : ''}${lines.length ? '; dashed: where the codes end' : ''}`, BOTH(), f.root);
  }

  function channelErrors(p) {
    const c = p.channels, db = decode(c.db, c.db_lo, c.db_hi), known = db.filter(v => v < c.db_hi);
    if (!known.length) return null;
    const lo = Math.min(0, ...known), hi = Math.max(...known) * 1.05 + 1;
    const f = frame({
      ...PLOT, x: [0, c.count], y: [lo, hi], xLabel: `channel (axis ${c.axis})`, yLabel: 'SQNR (dB)', label: 'SQNR of channels',
      xTicks: labelled(ticks(0, c.count, 5)), yTicks: labelled(ticks(lo, hi, 5))
    });
    const wide = (f.right - f.left) / db.length;
    db.forEach((v, i) => {
      if (v >= c.db_hi) return;
      f.root.append(svg('rect', {
        class: 'other', x: (f.left + wide * (i + 0.1)).toFixed(2), width: Math.max(wide * 0.8, 0.6).toFixed(2),
        y: f.y(Math.max(v, 0)).toFixed(1), height: Math.max(Math.abs(f.y(v) - f.y(0)), 1).toFixed(1)
      }));
    });
    return figure('Error by channel', 'accumulated; higher is better; no bar: no error or only zeros', f.root);
  }

  function scatter(p) {
    const v = p.values, xs = decode(v.x, v.lo, v.hi), ys = decode(v.y, v.lo, v.hi);
    const f = frame({
      ...PLOT, x: [v.lo, v.hi], y: [v.lo, v.hi], xLabel: 'float', yLabel: 'INT8', label: 'Float against INT8',
      xTicks: labelled(ticks(v.lo, v.hi, 5)), yTicks: labelled(ticks(v.lo, v.hi, 5))
    });
    f.root.append(svg('line', { class: 'diagonal', x1: f.x(v.lo), y1: f.y(v.lo), x2: f.x(v.hi), y2: f.y(v.hi) }));
    xs.forEach((x, i) => f.root.append(svg('circle', { class: 'point', cx: f.x(x).toFixed(1), cy: f.y(ys[i]).toFixed(1), r: 2.2 })));
    return figure('Float against INT8', `${xs.length} elements drawn at random; on the line: equal`, f.root);
  }

  function codeUsage(p, layer) {
    const n = decode(p.codes.counts), f = frame({
      ...PLOT, x: [0, 256], y: [0, 1.04], xLabel: 'code', yLabel: 'elements (log)', label: 'Use of codes',
      xTicks: [0, 64, 128, 192, 255].map(v => [v, String(v)]), yTicks: countTicks(p.codes.most)
    });
    const wide = (f.right - f.left) / 256;
    n.forEach((v, i) => v > 0 && f.root.append(svg('rect', {
      class: 'other', x: (f.left + wide * i).toFixed(2), width: wide.toFixed(2), y: f.y(v).toFixed(1), height: (f.y(0) - f.y(v)).toFixed(1), 'shape-rendering': 'crispEdges'
    })));
    return figure('Codes', `${layer.codes_used} of 256 used`, f.root);
  }

  function weightPlot(w) {
    const max = w.reference ? decode(w.reference, 0, w.hi) : [], limit = w.limit ? decode(w.limit, 0, w.hi) : [];
    const f = frame({
      ...PLOT, x: [0, w.count], y: [0, w.hi * 1.04], xLabel: 'output channel', yLabel: 'largest |weight|', label: 'Weights by channel',
      xTicks: labelled(ticks(0, w.count, 5)), yTicks: labelled(ticks(0, w.hi, 4))
    });
    const n = Math.max(max.length, limit.length), wide = (f.right - f.left) / n;
    max.forEach((v, i) => f.root.append(svg('rect', {
      class: 'reference-area', x: (f.left + wide * (i + 0.05)).toFixed(2), width: Math.max(wide * 0.9, 0.6).toFixed(2),
      y: f.y(v).toFixed(1), height: Math.max(f.bottom - f.y(v), 0.5).toFixed(1)
    })));
    limit.forEach((v, i) => f.root.append(svg('rect', {
      class: 'other', x: (f.left + wide * (i + 0.05)).toFixed(2), width: Math.max(wide * 0.9, 0.8).toFixed(2), y: (f.y(v) - 0.8).toFixed(1), height: 1.6
    })));
    const list = (kind, n, first) => n ? `; ${kind}: ${first.join(', ')}${n > first.length ? ` and ${n - first.length} more` : ''}` : '';
    const note = `${plural(w.count, 'channel')}${w.each > 1 ? `, ${w.each} to a bar` : ''}${list('dead', w.dead, w.first_dead)}${list('huge', w.huge, w.first_huge)}` +
      (w.rescaled ? '; the INT8 model has them rescaled (smoothing, equalization)' : '');
    return figure('Weights', note, keys(['reference', 'float'], ...(w.limit ? [['other', 'what the codes reach']] : [])), f.root);
  }

  // ---- advice

  const fixes = list => list.length === 0 ? null : el('ul', {}, list.map(f =>
    el('li', {}, f.flag ? el('code', { class: 'flag' }, f.flag) : el('b', {}, 'in the model:'), ' ', f.text)));
  // A finding, or a layer that has one.
  const advice = (f, ...title) => el('div', { class: 'advice card' }, el('span', { class: 'kind' }, f.cause_kind.replaceAll('_', ' ')),
    ...title, el('p', {}, f.cause), fixes(f.fixes));

  // ---- layers: rows and drawers

  layers.forEach((l, i) => { l.index = i; });
  // [heading, value to sort by, text, left]; a column without any value is left out.
  const sqnr = e => !e ? null : e.exact ? Infinity : e.sqnr_db;
  const columns = [
    { head: 'Tensor', left: true, sort: l => l.name.toLowerCase() },
    { head: 'Own dB', title: 'SQNR of the layer alone, computed from the float model’s tensors', sort: l => sqnr(l.own), text: l => decibels(l.own) },
    { head: 'Accum. dB', title: 'SQNR of its tensor in the whole run', sort: l => sqnr(l.accumulated), text: l => decibels(l.accumulated) },
    { head: 'Alone dB', title: 'SQNR of the worst output if only this layer is INT8', sort: l => l.alone_exact ? Infinity : l.alone_db, text: l => l.alone_exact ? 'exact' : fixed(l.alone_db, 1) },
    { head: 'Gain dB', title: 'What the worst output wins if this layer is float', sort: l => l.gain_db, text: l => (l.gain_db > 0 ? '+' : '') + fixed(l.gain_db, 2) },
    { head: 'Cause', left: true, sort: l => l.cause_kind, text: l => l.cause_kind.replaceAll('_', ' ') },
    { head: 'Operator', left: true, sort: l => l.op, text: l => l.op },
    { head: 'Type', left: true, sort: l => l.int8 ? 0 : 1, text: l => l.int8 ? 'int8' : 'float' },
    { head: 'Clipped', title: 'Share of float values beyond the codes', sort: l => l.clipped, text: l => percent(l.clipped) },
    { head: 'Codes', title: 'Codes used, of 256', sort: l => l.codes_used, text: l => String(l.codes_used) },
    { head: '#', title: 'Place in execution order', sort: l => l.index, text: l => String(l.index + 1) },
    { head: 'Float time', title: 'Of one run on the first sample', sort: l => l.time_us ? l.time_us.reference : null, text: l => millis(l.time_us.reference) },
    { head: 'INT8 time', title: 'Of one run on the first sample', sort: l => l.time_us ? l.time_us.other : null, text: l => millis(l.time_us.other) }
  ].filter((c, i) => i === 0 || layers.some(l => { const v = c.sort(l); return v !== null && v !== undefined; }));
  const rows = layers.map((layer, i) => ({ layer, plots: page.plots[i], row: null, drawer: null }));
  let order = { column: columns.findIndex(c => c.head === 'Own dB'), down: false };

  function drawer({ layer, plots }) {
    const fact = (name, text) => missing(text) || text === '' ? null : el('div', {}, el('dt', {}, name), el('dd', {}, text));
    const error = (name, e) => !e || (!e.exact && missing(e.sqnr_db)) ? null : fact(name, e.exact ? 'exact'
      : `${fixed(e.sqnr_db, 2)} dB, cosine ${missing(e.cosine) ? '–' : fixed(e.cosine, 6)}, largest error ${short(e.max_abs)}, mean error ${short(e.bias)}`);
    const worst = plots.worst;
    const facts = el('dl', { class: 'facts' },
      fact('tensor', el('span', { class: 'name' }, layer.name)), layer.node !== layer.name ? fact('node', el('span', { class: 'name' }, layer.node)) : null,
      error('own', layer.own), layer.own.why ? fact('own', `cannot be run alone: ${layer.own.why}`) : null, error('accumulated', layer.accumulated),
      plots.range ? fact('codes stand for', `${short(plots.range[0])} to ${short(plots.range[1])}`) : null,
      worst ? fact('farthest element', `sample ${worst.sample} [${worst.index.join(', ')}]: float ${short(worst.reference)}, INT8 ${short(worst.other)}`) : null,
      layer.sensitivity_missing ? fact('alone, gain', layer.sensitivity_missing) : null,
      layer.inside.length ? fact('inside', el('span', { class: 'name' }, layer.inside.join(', '))) : null);
    const w = weights.get(layer.name);
    const pictures = [plots.hist && histogram(plots), plots.values && scatter(plots), plots.channels && channelRanges(plots),
      plots.channels && channelErrors(plots), plots.codes && codeUsage(plots, layer), w && weightPlot(w)].filter(Boolean);
    return el('tr', { class: 'drawer-row' }, el('td', { colspan: columns.length }, el('div', { class: 'drawer' },
      facts, layer.cause ? advice(layer) : null, el('div', { class: 'plots' }, ...pictures))));
  }

  function toggle(item, open = !item.drawer) {
    if (open === Boolean(item.drawer)) return;
    item.row.classList.toggle('open', open);
    item.row.querySelector('button').setAttribute('aria-expanded', String(open));
    if (open) item.row.after(item.drawer = drawer(item));
    else { item.drawer.remove(); item.drawer = null; }
  }

  function openLayer(name) {
    const item = rows.find(r => r.layer.name === name);
    if (!item) return;
    if (item.row.hidden) { for (const id of ['find', 'type', 'operator']) $(id).value = ''; filter(); }
    toggle(item, true);
    item.row.scrollIntoView({ block: 'start' });
    item.row.querySelector('button').focus({ preventScroll: true });
  }
  const layerLink = (name, most) => {
    const known = rows.some(r => r.layer.name === name), text = shorten(name, most);
    return known ? el('button', { class: 'link name', title: name, onclick: () => openLayer(name) }, text) : el('span', { class: 'name', title: name }, text);
  };

  function layerRow(item) {
    const { layer } = item;
    const cells = columns.slice(1).map(c => {
      const text = missing(c.sort(layer)) ? (c.head === 'Own dB' ? '?' : '–') : c.text(layer) ?? '–';
      return el('td', { class: c.left ? 'left' : null, title: c.head === 'Own dB' && layer.own.why ? layer.own.why : null }, text);
    });
    const button = el('button', { 'aria-expanded': 'false', title: layer.name }, shorten(layer.name, 44));
    item.row = el('tr', { class: 'layer', onclick: () => { if (!String(getSelection())) toggle(item); } }, el('td', { class: 'name' }, button), ...cells);
    return item.row;
  }

  function sortRows() {
    const key = columns[order.column].sort;
    const sorted = [...rows].sort((a, b) => {
      const x = key(a.layer), y = key(b.layer);
      if (missing(x) || missing(y)) return missing(x) - missing(y) || a.layer.index - b.layer.index;   // unknown ones last
      const c = x < y ? -1 : x > y ? 1 : 0;
      return (order.down ? -c : c) || a.layer.index - b.layer.index;
    });
    const body = $('layers').querySelector('tbody');
    for (const item of sorted) body.append(item.row, ...(item.drawer ? [item.drawer] : []));
    $('layers').querySelectorAll('th').forEach((th, i) =>
      i === order.column ? th.setAttribute('aria-sort', order.down ? 'descending' : 'ascending') : th.removeAttribute('aria-sort'));
  }

  function filter() {
    const words = $('find').value.toLowerCase().split(/\s+/).filter(Boolean), type = $('type').value, operator = $('operator').value;
    let shown = 0;
    for (const item of rows) {
      const l = item.layer, text = [l.name, l.node, l.op, l.cause_kind || '', ...l.inside].join(' ').toLowerCase();
      const fits = words.every(w => text.includes(w)) && (!type || (type === 'int8') === l.int8) && (!operator || l.op === operator);
      item.row.hidden = !fits;
      if (!fits) toggle(item, false);
      shown += fits;
    }
    $('shown').textContent = shown === rows.length ? plural(shown, 'layer') : `${shown} of ${plural(rows.length, 'layer')}`;
  }

  function layerTable() {
    if (!layers.length) return;
    const section = $('layers');
    section.hidden = false;
    section.querySelector('.table').append(el('table', {}, el('thead', {}, el('tr', {}, columns.map((c, i) =>
      el('th', { class: c.left ? 'left' : null, scope: 'col', title: c.title }, el('button', {
        onclick: () => { order = { column: i, down: order.column === i && !order.down }; sortRows(); }
      }, c.head))))), el('tbody', {}, rows.map(layerRow))));
    for (const op of [...new Set(layers.map(l => l.op))].sort()) $('operator').append(el('option', { value: op }, op));
    for (const id of ['find', 'type', 'operator']) $(id).addEventListener('input', filter);
    $('legend').textContent = 'SQNR in dB, higher is better. ? marks a layer that cannot be run alone. Click a heading to sort, a layer to open it.';
    sortRows();
    filter();
  }

  // ---- error along the network

  function networkChart() {
    const box = $('network').querySelector('.chart');
    const values = layers.flatMap(l => [sqnr(l.own), sqnr(l.accumulated)]).filter(v => !missing(v) && isFinite(v));
    if (!layers.length || !values.length) return;
    $('network').hidden = false;
    const lo = Math.min(0, ...values), most = Math.max(...values), exact = layers.some(l => l.accumulated.exact || l.own.exact);
    const hi = most + (most - lo) * (exact ? 0.14 : 0.05), exactly = most + (most - lo) * 0.1;
    const place = e => missing(sqnr(e)) ? null : e.exact ? exactly : e.sqnr_db;
    const draw = () => {
      const width = Math.max(box.clientWidth - 28, 240), n = layers.length;
      const yTicks = labelled(ticks(lo, most, 6));
      const f = frame({
        width, height: width < 520 ? 260 : 320, x: [0.5, n + 0.5], y: [lo, hi], xLabel: 'layer, in execution order', yLabel: 'SQNR (dB)',
        label: 'SQNR of layers along the network', xTicks: labelled(ticks(1, n, Math.min(n, width / 70)).filter(v => Number.isInteger(v) && v >= 1)),
        yTicks: exact ? [...yTicks.filter(([v]) => exactly - v > (hi - lo) * 0.06), [exactly, 'exact']] : yTicks
      });
      const radius = n > 300 ? 1.6 : n > 100 ? 2.2 : 3.2;
      let path = '', joined = false;   // the line has a gap where there is no figure
      layers.forEach((l, i) => {
        const v = place(l.accumulated);
        if (v !== null) path += `${joined ? 'L' : 'M'}${f.x(i + 1).toFixed(1)},${f.y(v).toFixed(1)}`;
        joined = v !== null;
      });
      f.root.append(svg('path', { class: 'other-line', d: path }));
      const dots = (pick, kind) => layers.forEach((l, i) => {
        const v = place(pick(l));
        if (v !== null) f.root.append(svg('circle', { class: kind, cx: f.x(i + 1).toFixed(1), cy: f.y(v).toFixed(1), r: radius }));
      });
      dots(l => l.accumulated, 'other');
      dots(l => l.own, 'own');
      const guide = svg('line', { class: 'guide', y1: f.top, y2: f.bottom, visibility: 'hidden' });
      f.root.append(guide);
      const nearest = event => {
        const r = f.root.getBoundingClientRect(), x = (event.clientX - r.left) * width / r.width;
        return Math.max(0, Math.min(n - 1, Math.round((x - f.x(1)) / (n > 1 ? f.x(2) - f.x(1) : 1))));
      };
      f.root.addEventListener('pointermove', event => {
        const i = nearest(event), l = layers[i];
        guide.setAttribute('x1', f.x(i + 1));
        guide.setAttribute('x2', f.x(i + 1));
        guide.setAttribute('visibility', 'visible');
        tip(event, el('div', { class: 'name' }, shorten(l.name, 70)), el('div', { class: 'soft' }, `${l.op}, ${l.int8 ? 'int8' : 'float'}`),
          `own ${decibels(l.own) ?? '?'}${l.own.exact || missing(l.own.sqnr_db) ? '' : ' dB'}, accumulated ${decibels(l.accumulated) ?? '–'}${l.accumulated.exact || missing(l.accumulated.sqnr_db) ? '' : ' dB'}`);
      });
      f.root.addEventListener('pointerleave', () => { guide.setAttribute('visibility', 'hidden'); $('tip').hidden = true; });
      f.root.addEventListener('click', event => { $('tip').hidden = true; openLayer(layers[nearest(event)].name); });
      box.replaceChildren(f.root);
    };
    let drawn = 0;
    new ResizeObserver(() => { if (box.clientWidth !== drawn) { drawn = box.clientWidth; draw(); } }).observe(box);
  }

  function tip(event, ...content) {
    const t = $('tip');
    t.replaceChildren(...content);
    t.hidden = false;
    const x = event.clientX + 14 + t.offsetWidth > innerWidth ? event.clientX - 14 - t.offsetWidth : event.clientX + 14;
    t.style.left = `${Math.max(4, x)}px`;
    t.style.top = `${Math.min(event.clientY + 14, innerHeight - t.offsetHeight - 4)}px`;
  }

  // ---- summary, outputs, weights, time, environment

  // [text, color] where no threshold decides. Labels, and classes that stay, say more than decibels do.
  function judged(worst, filled) {
    const none = 'no thresholds were set';
    if (report.data.random) return [`random data, ${none}`, 'soft'];
    if (!worst) return [filled.length && filled.every(o => o.exact) ? `equal to the reference, ${none}` : none, 'soft'];
    if (report.accuracy) {
      const points = report.accuracy.difference * 100;
      return [`${fixed(Math.abs(points), 1)} points of accuracy ${points < 0 ? 'lost' : 'won'}, ${none}`, points < -1 ? 'bad' : points < 0 ? 'soft' : 'good'];
    }
    const top1 = report.outputs.map(o => o.top1_agreement).filter(v => !missing(v)), keeps = top1.length > 0 && Math.min(...top1) >= 0.99;
    const db = `worst output ${fixed(worst.sqnr_db, 1)} dB, ${none}`;
    return worst.sqnr_db < 15 && !keeps ? [`poor: ${db}`, 'bad'] : worst.sqnr_db < 30 ? [`fair: ${db}`, 'soft'] : [`good: ${db}`, 'good'];
  }

  function summary() {
    const title = `${fileName(report.other)} against ${fileName(report.reference)}`;
    document.title = `${title} – fold8 report`;
    $('title').append(fileName(report.other), el('span', {}, ' against '), fileName(report.reference));
    const checks = report.checks, missed = checks.filter(c => !c.passed).length;
    const verdict = $('verdict');
    const filled = report.outputs.filter(o => o.elements > 0), defined = filled.filter(o => !missing(o.sqnr_db));
    const worst = defined.length ? defined.reduce((a, b) => b.sqnr_db < a.sqnr_db ? b : a) : null;
    const [grade, color] = !checks.length ? judged(worst, filled) : ['', ''];
    verdict.textContent = !checks.length ? grade : missed ? `missed: ${missed} of ${plural(checks.length, 'threshold')}` : `passed: ${plural(checks.length, 'threshold')}`;
    verdict.classList.add(!checks.length ? color : missed ? 'bad' : 'good');
    const tile = (what, value, unit, more) => $('summary').append(el('div', { class: 'tile card' },
      el('p', { class: 'what' }, what), el('p', { class: 'value' }, value, unit ? el('small', {}, ` ${unit}`) : null), el('p', { class: 'more' }, more)));
    if (worst) tile(filled.length > 1 ? 'Worst output' : 'Output', fixed(worst.sqnr_db, 1), 'dB SQNR', `${shorten(worst.name, 40)}, cosine ${missing(worst.cosine) ? '–' : fixed(worst.cosine, 5)}`);
    else if (filled.length) tile('Outputs', filled.every(o => o.exact) ? 'exact' : '–', '', filled.every(o => o.exact) ? 'every element of every output is equal' : 'the reference is zero');
    const points = v => `${v > 0 ? '+' : ''}${fixed(v * 100, 2)}`;
    if (report.accuracy) {
      const a = report.accuracy;
      tile('Accuracy', fixed(a.other * 100, 2), '%', `float ${fixed(a.reference * 100, 2)} %, ${points(a.difference)} points (95 % interval ${points(a.interval95[0])} to ${points(a.interval95[1])}) on ${a.samples} labels`);
    }
    const top1 = report.outputs.filter(o => !missing(o.top1_agreement));
    if (top1.length) {
      const o = top1.reduce((a, b) => b.top1_agreement < a.top1_agreement ? b : a);
      tile('Top-1 agreement', fixed(o.top1_agreement * 100, 1), '%', `rows of ${shorten(o.name, 30)} whose best class stays`);
    }
    const own = layers.filter(l => !missing(sqnr(l.own)) && isFinite(sqnr(l.own)));
    if (own.length) {
      const l = own.reduce((a, b) => b.own.sqnr_db < a.own.sqnr_db ? b : a);
      tile('Worst layer, own error', fixed(l.own.sqnr_db, 1), 'dB', layerLink(l.name, 34));
    }
    if (!missing(report.int8_mac_share)) tile('Multiply-adds in INT8', fixed(report.int8_mac_share * 100, 1), '%',
      missing(report.int8_attention_share) ? 'of layers with constant weights' : `of layers with constant weights; attention ${fixed(report.int8_attention_share * 100, 1)} %`);
    if (report.time_us && report.time_us.other > 0) tile('Speed', fixed(report.time_us.reference / report.time_us.other, 2), '× float',
      `${millis(report.time_us.reference)} → ${millis(report.time_us.other)}, first sample, ${plural(report.threads, 'thread')}`);
    tile('Samples', String(report.samples), '', report.data.random ? el('b', { class: 'bad' }, 'random numbers: they say nothing about accuracy') : `data: ${shorten(report.data.paths.map(fileName).join(', '), 60)}`);
  }

  function thresholds() {
    if (!report.checks.length) return;
    $('thresholds').hidden = false;
    const limit = c => missing(c.limit) ? '–' : `${c.at_least ? '≥' : '≤'} ${c.limit}${c.unit}`;
    $('thresholds').querySelector('.card').append(el('table', {}, el('thead', {}, el('tr', {}, ['Output', 'Figure', 'Limit', 'Measured', ''].map((h, i) => el('th', { class: i < 2 ? 'left' : null }, h)))),
      el('tbody', {}, report.checks.map(c => el('tr', {}, el('td', { class: 'name' }, c.output === null ? 'any' : shorten(c.output, 44)), el('td', { class: 'left' }, c.what), el('td', {}, limit(c)),
        el('td', {}, c.exact ? 'exact' : missing(c.value) ? 'undefined' : `${Number(c.value.toPrecision(6))}${c.unit}`), el('td', { class: c.passed ? 'good' : 'bad' }, c.passed ? 'passed' : 'missed'))))));
  }

  function adviceCards() {
    const list = report.what_to_do;
    if (!list.length) return;
    $('advice').hidden = false;
    const title = f => [layerLink(f.layer, 60), missing(f.error_share) ? null : el('span', { class: 'soft' }, `, alone ${percent(Math.round(f.error_share * 100) / 100)} of the error`),
      f.also.length ? el('div', { class: 'soft' }, 'also ', f.also.slice(0, 6).flatMap((name, i) => [i ? ', ' : '', layerLink(name, 40)]), f.also.length > 6 ? ` and ${f.also.length - 6} more` : '') : null];
    $('advice').querySelector('.cards').append(...list.map(f => advice(f, ...title(f))));
  }

  function outputs() {
    const heads = ['Output', 'SQNR dB', 'Cosine', 'Largest error', 'Relative L2', 'Mean error', 'Top-1', 'Top-5', 'KL'];
    const classes = report.outputs.some(o => !missing(o.top1_agreement)), used = classes ? heads : heads.slice(0, 6);
    const cells = o => [o.exact ? 'exact' : decibels(o), missing(o.cosine) ? null : fixed(o.cosine, 6), short(o.max_abs), missing(o.rel_l2) ? null : short(o.rel_l2), missing(o.bias) ? null : short(o.bias),
      ...(classes ? [missing(o.top1_agreement) ? null : percent(o.top1_agreement), missing(o.top5_agreement) ? null : percent(o.top5_agreement), missing(o.kl) ? null : short(o.kl)] : [])];
    $('outputs').querySelector('.card').append(el('table', {}, el('thead', {}, el('tr', {}, used.map(h => el('th', {}, h)))),
      el('tbody', {}, report.outputs.map(o => el('tr', {}, el('td', { class: 'name', title: o.name }, shorten(o.name, 44)), cells(o).map(c => el('td', {}, c ?? '–')))))));
  }

  // The first rows, and a button for the rest.
  function collapsible(box, items, most) {
    items.forEach((item, i) => { item.hidden = i >= most; });
    if (items.length <= most) return;
    const button = el('button', { class: 'more-button', onclick: () => { items.forEach(item => { item.hidden = false; }); button.remove(); } }, `show all ${items.length}`);
    box.append(button);
  }

  function weightTable() {
    const list = page.weights.filter(w => w.reference);
    if (!list.length) return;
    $('weights').hidden = false;
    const ratio = w => w.median > 0 ? w.largest / w.median : Infinity;
    list.sort((a, b) => b.huge - a.huge || b.dead - a.dead || ratio(b) - ratio(a));
    const heads = ['Layer', 'Channels', 'Largest', 'Median', 'Ratio', 'Dead', 'Huge', 'Scales', 'Scale'];
    const line = w => el('tr', {}, el('td', { class: 'name' }, layerLink(w.name, 44)),
      [String(w.count), short(w.largest), short(w.median), isFinite(ratio(w)) ? short(ratio(w)) : '–', String(w.dead), String(w.huge), w.scales ? String(w.scales) : 'float',
        !w.scales ? '–' : w.scales === 1 ? short(w.scale_min) : `${short(w.scale_min)} to ${short(w.scale_max)}`].map((t, i) => el('td', { class: (i === 4 || i === 5) && t !== '0' ? 'bad' : null }, t)));
    const items = list.map(line);
    const box = $('weights').querySelector('.table');
    box.append(el('table', {}, el('thead', {}, el('tr', {}, heads.map(h => el('th', {}, h)))), el('tbody', {}, items)));
    collapsible(box, items, 12);
  }

  function time() {
    if (!report.time_us) return;
    const list = layers.filter(l => l.time_us && (!missing(l.time_us.reference) || !missing(l.time_us.other)));
    if (!list.length) return;
    $('time').hidden = false;
    $('time').querySelector('.note').textContent = 'Median of some runs of both models on the first sample. Layers that one model fuses into a neighbour have no time of their own there; the rest of a run is data movement and rounding.';
    const slower = l => Math.max(l.time_us.reference ?? 0, l.time_us.other ?? 0), most = Math.max(...list.map(slower));
    list.sort((a, b) => slower(b) - slower(a));
    const bar = (kind, us) => el('i', { class: kind, style: `width:${missing(us) ? 0 : 100 * us / most}%` });
    const line = (name, a, b, scale) => el('div', { class: 'bar' }, name, el('div', { class: 'lines' }, scale ? [bar('reference', a), bar('other', b)] : null),
      el('div', { class: 'us' }, `${missing(a) ? '–' : millis(a)} → ${missing(b) ? '–' : millis(b)}`));
    const box = $('time').querySelector('.bars');
    const items = list.map(l => line(layerLink(l.name, 36), l.time_us.reference, l.time_us.other, true));
    box.append(keys(['reference', `float, ${millis(report.time_us.reference)} in all`], ['other', `INT8, ${millis(report.time_us.other)} in all`]), ...items);
    collapsible(box, items, 12);
  }

  function environment() {
    const list = $('environment').querySelector('dl');
    const add = (name, value) => { if (value) list.append(el('dt', {}, name), el('dd', {}, value)); };
    const file = f => [el('span', { class: 'name' }, f.path), f.bytes ? `, ${count(f.bytes)}B` : '', f.xxh3 ? el('span', {}, ', XXH3 ', el('code', {}, f.xxh3)) : ''];
    add('Float model', el('span', {}, file(report.files.reference)));
    add('INT8 model', el('span', {}, file(report.files.other)));
    add('Data', el('span', {}, el('span', { class: 'name' }, report.data.paths.join(', ')), `, ${plural(report.samples, 'sample')}`, report.data.xxh3 ? el('span', {}, ', XXH3 ', el('code', {}, report.data.xxh3)) : ''));
    add('CPU', report.cpu);
    add('Instructions', `${report.target}, engine ${report.engine}, ${plural(report.threads, 'thread')}`);
    add('fold8', report.version);
  }

  summary();
  thresholds();
  adviceCards();
  outputs();
  layerTable();
  networkChart();
  weightTable();
  time();
  environment();
})();
