#!/usr/bin/env python3
"""The page that `fold8 report --html` writes, in headless Chromium: it draws without errors or requests, sorts, filters, opens
layers, fits a phone, and shows names of strangers as text.

usage: page_test.py --fold8 BINARY --work DIR --venv DIR
Without Chromium (or CHROMIUM=...) the test is skipped (77); with FOLD8_REQUIRE_ZOO=1 that is a failure.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'support'))
from browser import Browser, find_browser  # noqa: E402
from fold8_command import DATA, Checks, Fold8, command_line, empty_folder, skip  # noqa: E402

HOSTILE = ['</script><script>window.hacked=1</script>', '<img src=x onerror="window.hacked=1">', '\'"&amp;<b>{{x}}', '/*DATA*/', 'ü' * 300]
LAYERS, MOST_BYTES = 1000, 4 << 20

# Texts of one picture whose boxes overlap, in all pictures that are shown.
OVERLAPS = '''(() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const boxes = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]).filter(([, r]) => r.width > 0);
    boxes.forEach(([a, r], i) => boxes.slice(i + 1).forEach(([b, s]) => {
      if (Math.min(r.right, s.right) - Math.max(r.left, s.left) > 1 && Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top) > 2) found.push(`${a} | ${b}`);
    }));
    const frame = svg.getBoundingClientRect();
    for (const [a, r] of boxes) if (r.left < frame.left - 2 || r.right > frame.right + 2) found.push(`${a} is cut`);
  }
  return found;
})()'''
ROWS = '[...document.querySelectorAll("#layers tbody tr.layer")].filter(r => !r.hidden)'
COLUMN = ROWS + '.map(r => r.cells[[...document.querySelectorAll("#layers th")].findIndex(h => h.textContent === "%s")].textContent)'
SETTLE = 'new Promise(done => setTimeout(done, 150))'


def chain(path, names, width=8):
    """x -> one linear layer with ReLU a name, of weights near the identity, as ONNX."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng, nodes, weights, last = np.random.default_rng(1), [], [], 'x'
    for i, name in enumerate(names):
        w = (np.eye(width) + rng.normal(size=(width, width)) * 0.05).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f'weight {i}'))
        nodes += [helper.make_node('MatMul', [last, f'weight {i}'], [f'product {i}']), helper.make_node('Relu', [f'product {i}'], [name], name=f'node of {name}')]
        last = name
    graph = helper.make_graph(nodes, 'chain', [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['n', width])],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT, ['n', width])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), path)
    np.savez(path.with_suffix('.npz'), x=rng.normal(size=(16, width)).astype(np.float32))
    return path, path.with_suffix('.npz')


def check_drawing(checks, browser, what):
    checks.expect(not browser.problems, f'{what}: no errors and no requests {browser.problems[:3]}')
    overlaps = browser(OVERLAPS)
    checks.expect(not overlaps, f'{what}: no label lies on another {overlaps[:3]}')
    wide, shown = browser('[document.documentElement.scrollWidth, innerWidth]')
    checks.expect(wide <= shown, f'{what}: the page is not wider ({wide}) than the window ({shown})')


def test_table(checks, browser):
    order = browser(COLUMN % 'Own dB')
    finite = [float(v) for v in order if v not in ('exact', '?')]
    checks.expect(finite == sorted(finite) and len(finite) > 3, f'the worst layers come first: {order}')
    heading = '[...document.querySelectorAll("#layers th button")].find(b => b.textContent === "%s")'
    browser.click(heading % 'Own dB')
    checks.expect(browser(COLUMN % 'Own dB') == order[::-1], 'a second click turns the order around')
    browser.click(heading % 'Tensor')
    names = browser(ROWS + '.map(r => r.cells[0].textContent)')
    checks.expect(names == sorted(names, key=str.lower), f'names sort by letters: {names}')
    state = browser('[...document.querySelectorAll("#layers th")].map(h => h.getAttribute("aria-sort")).filter(Boolean)')
    checks.expect(state == ['ascending'], f'one heading says how the table is sorted: {state}')
    everything = len(names)
    browser.click('document.getElementById("find")')
    browser.type('conv relu')
    found = browser(ROWS + '.map(r => r.textContent)')
    checks.expect(0 < len(found) < everything and all('conv' in f and 'relu' in f for f in found), f'the search finds layers with both words: {len(found)} of {everything}')
    checks.expect(browser('document.getElementById("shown").textContent') == f'{len(found)} of {everything} layers', 'and says how many')
    browser('document.getElementById("find").value = ""')
    browser('(() => { const s = document.getElementById("type"); s.value = "float"; s.dispatchEvent(new Event("input")); })()')
    types = set(browser(COLUMN % 'Type'))
    checks.expect(types == {'float'}, f'the choice of a type leaves that type: {types}')
    browser('(() => { const s = document.getElementById("type"); s.value = ""; s.dispatchEvent(new Event("input")); })()')
    checks.expect(len(browser(ROWS + '.map(r => 1)')) == everything, 'without filters all are back')


def test_drawers(checks, browser):
    browser.click('document.querySelector("tr.layer button")')
    first = browser('[document.querySelector("tr.layer").nextSibling.className, document.querySelector("tr.layer button").getAttribute("aria-expanded")]')
    checks.expect(first == ['drawer-row', 'true'], f'a click opens a layer: {first}')
    browser.click('document.querySelector("tr.layer button")')
    checks.expect(browser('document.querySelectorAll(".drawer").length') == 0, 'and another closes it')
    browser('document.querySelectorAll("tr.layer button").forEach(b => b.click())')
    browser(SETTLE)
    pictures = browser('[...document.querySelectorAll(".drawer")].map(d => [...d.querySelectorAll("figcaption")].map(f => f.firstChild.textContent))')
    checks.expect(len(pictures) > 3 and all({'Values', 'Float against INT8', 'Channel ranges'} <= set(p) for p in pictures), f'every layer has its pictures: {pictures}')
    checks.expect(any('Codes' in p for p in pictures) and any('Weights' in p for p in pictures), 'codes and weights where there are any')
    empty = browser('[...document.querySelectorAll(".drawer figure")].filter(f => !f.querySelector("path, rect, circle")).length')
    bad = browser('[...document.querySelectorAll("svg *")].filter(e => [...e.attributes].some(a => /NaN|undefined|Infinity/.test(a.value))).length')
    checks.expect(empty == 0 and bad == 0, f'no picture is empty ({empty}), no shape lies nowhere ({bad})')
    browser('document.querySelectorAll("tr.layer.open button").forEach(b => b.click())')
    browser.click('document.querySelector("#network svg circle.own")')
    browser(SETTLE)
    checks.expect(browser('document.querySelectorAll(".drawer").length') == 1, 'a point of the chart opens its layer')


def network_of_digits(checks, fold8, browser, work):
    page, int8 = work / 'digits.html', work / 'digits.f8'
    fold8('convert', DATA / 'digits_cnn.onnx', '-o', int8, '--calib', DATA / 'digits_calib.npz', '--stacked', '--max-samples', 32)
    report = ['report', DATA / 'digits_cnn.onnx', int8, '--data', DATA / 'digits_eval.npz', '--stacked', '--labels', DATA / 'digits_eval_labels.npy', '--min-sqnr', 10]
    status, text = fold8.start(*report, '--min-cosine', 'logits=1', '--html', page)
    checks.expect(status == 1, f'a threshold is missed: status {status} {text[-200:]}')
    for name, width, dark, phone in (('light', 1280, False, False), ('dark', 1280, True, False), ('phone', 390, False, True)):
        browser.view(width, 844 if phone else 900, dark, phone)
        browser.open(page)
        browser(SETTLE)
        background = browser('getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)')
        checks.expect((sum(background) < 200) == dark, f'{name}: background {background}')
        if name == 'light':
            verdict = browser('document.getElementById("verdict").textContent')
            checks.expect('missed: 1 of 2' in verdict, f'the verdict: {verdict}')
            tiles = browser('document.getElementById("summary").textContent')
            checks.expect(all(w in tiles for w in ('Accuracy', '95 % interval', 'Top-1', 'SQNR', 'Speed')), f'the summary: {tiles}')
            test_table(checks, browser)
            test_drawers(checks, browser)
        browser('document.querySelectorAll("tr.layer:not(.open) button").forEach(b => b.click())')
        browser(SETTLE)
        check_drawing(checks, browser, name)
        drawer = browser('[...document.querySelectorAll(".drawer")].map(d => d.getBoundingClientRect().width)')
        checks.expect(all(0 < w <= width for w in drawer), f'{name}: drawers fit the window {drawer[:2]}')
        browser.screenshot(work / f'digits_{name}.png')
    fold8(*report, '--html', work / 'a.html', '--no-time')
    fold8(*report, '--html', work / 'b.html', '--no-time', '--threads', 1)
    a, b = ((work / f).read_text().replace('"threads":1', '"threads":2') for f in ('a.html', 'b.html'))
    checks.expect(a == b or '"threads":2' not in a, 'without times the page is the same again')


def without_thresholds(checks, fold8, browser, work):
    """A network calibrated on pictures far too dim: the page says so, and what to do."""
    import numpy as np

    np.savez(work / 'dim.npz', image=np.load(DATA / 'digits_calib.npz')['image'][:16] * 0.05)
    np.savez(work / 'some.npz', image=np.load(DATA / 'digits_eval.npz')['image'][:16])
    for what, data, verdict, color in (('dim', work / 'dim.npz', 'poor: worst output', 'bad'), ('right', DATA / 'digits_calib.npz', 'good: worst output', 'good')):
        fold8('convert', DATA / 'digits_cnn.onnx', '-o', work / 'n.f8', '--calib', data, '--stacked', '--max-samples', 32, '--no-search')
        fold8('report', DATA / 'digits_cnn.onnx', work / 'n.f8', '--data', work / 'some.npz', '--stacked', '--html', work / 'n.html', '--json', work / 'n.json', '--no-time', '--sensitivity')
        browser.view(1280)
        browser.open(work / 'n.html')
        browser(SETTLE)
        said = browser('document.getElementById("verdict").textContent')
        checks.expect(said.startswith(verdict) and 'no thresholds' in said and browser(f'document.getElementById("verdict").classList.contains("{color}")'), f'{what}: the verdict: {said}')
        browser.click('[...document.querySelectorAll("#layers th button")].find(b => b.textContent === "#")')
        places = browser(COLUMN % '#')
        checks.expect(places == [str(i + 1) for i in range(len(places))] and len(places) > 5, f'{what}: layers are numbered: {places}')
        fixes = [f for finding in json.loads((work / 'n.json').read_text())['what_to_do'] for f in finding['fixes']]
        cards = browser('[...document.querySelectorAll("#advice li")].map(e => e.textContent)')
        checks.expect(cards == [f'{f["flag"]} {f["text"]}' for f in fixes] and bool(cards) == (what == 'dim'), f'{what}: every fix with its flag and its gain, once: {cards[:2]}')
        check_drawing(checks, browser, what)


def names_of_strangers(checks, fold8, browser, work):
    model, data = chain(work / 'hostile.onnx', HOSTILE)
    fold8('convert', model, '-o', work / 'hostile.f8', '--calib', data, '--stacked')
    fold8('report', model, work / 'hostile.f8', '--data', data, '--stacked', '--html', work / 'hostile.html')
    browser.view(1280)
    browser.open(work / 'hostile.html')
    browser('document.querySelectorAll("tr.layer button").forEach(b => b.click())')
    browser(SETTLE)
    checks.expect(browser('typeof window.hacked') == 'undefined' and browser('document.images.length') == 0, 'names are no HTML')
    shown = set(browser('[...document.querySelectorAll(".drawer dd .name")].map(e => e.textContent)'))
    checks.expect(set(HOSTILE) <= shown, f'names are shown as they are: missing {set(HOSTILE) - shown}')
    check_drawing(checks, browser, 'hostile names')


def large_network(checks, fold8, browser, work):
    model, data = chain(work / 'large.onnx', [f'model.layers.{i}.activation' for i in range(LAYERS)])
    fold8('convert', model, '-o', work / 'large.f8', '--activations', 'dynamic')
    fold8('report', model, work / 'large.f8', '--data', data, '--stacked', '--max-samples', 2, '--html', work / 'large.html', '--threads', 1)
    size = (work / 'large.html').stat().st_size
    checks.expect(size <= MOST_BYTES, f'{LAYERS} layers: {size} bytes, at most {MOST_BYTES}')
    browser.open(work / 'large.html')
    browser(SETTLE)
    count = len(browser(ROWS + '.map(r => 1)'))
    checks.expect(count == LAYERS, f'all {LAYERS} layers are in the table: {count}')
    browser.click('document.querySelector("tr.layer button")')
    browser(SETTLE)
    check_drawing(checks, browser, f'{LAYERS} layers')


def main():
    a = command_line(__doc__)
    binary = find_browser()
    if binary is None:
        skip('no Chromium: install the Debian package chromium, or set CHROMIUM')
    work = empty_folder(a.work / 'page_test')
    checks, fold8 = Checks(), Fold8(a.fold8)
    with Browser(binary) as browser:
        for test in (network_of_digits, without_thresholds, names_of_strangers, large_network):
            print(f'{test.__name__}:')
            test(checks, fold8, browser, work)
    checks.finish('page')


if __name__ == '__main__':
    main()
