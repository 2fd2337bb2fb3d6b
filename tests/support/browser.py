"""Headless Chromium, driven over its DevTools pipe: no packages needed beside the browser itself."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome')


def find_browser():
    """Its path, or None. CHROMIUM=... names another one."""
    named = os.environ.get('CHROMIUM')
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. Errors of its scripts, its console and requests to other places are kept in `problems`."""

    def __init__(self, binary, limit=120):
        self.limit, self.count, self.problems, self.events = limit, 0, [], []
        self.profile = tempfile.TemporaryDirectory(prefix='fold8_browser_', ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()

        def as_3_and_4():   # the pair of descriptors Chromium reads commands from and writes answers to
            a, b = os.dup(to_read), os.dup(back_write)
            os.dup2(a, 3)
            os.dup2(b, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(
            [binary, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--hide-scrollbars',
             '--disable-background-networking', '--disable-extensions', '--font-render-hinting=none', f'--user-data-dir={self.profile.name}',
             '--remote-debugging-pipe', 'about:blank'],
            preexec_fn=as_3_and_4, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, 'HOME': self.profile.name})
        os.close(to_read)
        os.close(back_write)
        self.pending, self.session = b'', None
        targets = self.command('Target.getTargets')['targetInfos']
        page = next((t['targetId'] for t in targets if t['type'] == 'page'), None) or self.command('Target.createTarget', url='about:blank')['targetId']
        self.session = self.command('Target.attachToTarget', targetId=page, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.command(f'{domain}.enable')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.profile.cleanup()

    def _message(self, deadline):
        while b'\0' not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise TimeoutError('the browser does not answer')
            got = os.read(self.back, 1 << 20)
            if not got:
                raise RuntimeError('the browser ended')
            self.pending += got
        text, _, self.pending = self.pending.partition(b'\0')
        message = json.loads(text)
        self._note(message.get('method'), message.get('params', {}))
        return message

    def _note(self, method, p):
        if method == 'Runtime.exceptionThrown':
            d = p['exceptionDetails']
            self.problems.append(f'exception: {d.get("exception", {}).get("description", d.get("text"))}')
        elif method == 'Runtime.consoleAPICalled' and p['type'] in ('error', 'warning', 'assert'):
            self.problems.append(f'console: {[a.get("value", a.get("description")) for a in p["args"]]}')
        elif method == 'Log.entryAdded' and p['entry']['level'] in ('error', 'warning'):
            self.problems.append(f'log: {p["entry"]["text"]}')
        elif method == 'Network.requestWillBeSent' and not p['request']['url'].startswith(('file:', 'data:', 'about:')):
            self.problems.append(f'request: {p["request"]["url"]}')
        self.events.append(method)

    def command(self, method, **params):
        self.count += 1
        message = {'id': self.count, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.to, json.dumps(message).encode() + b'\0')
        deadline = time.monotonic() + self.limit
        while True:
            answer = self._message(deadline)
            if answer.get('id') == self.count:
                if 'error' in answer:
                    raise RuntimeError(f'{method}: {answer["error"]}')
                return answer['result']

    def wait_for(self, event):
        deadline = time.monotonic() + self.limit
        while event not in self.events:
            self._message(deadline)

    def view(self, width, height=900, dark=False, phone=False):
        self.command('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.command('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def open(self, path):
        self.events.clear()
        self.command('Page.navigate', url=Path(path).resolve().as_uri())
        self.wait_for('Page.loadEventFired')
        self('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')

    def __call__(self, script):
        """The value of a script of JavaScript; a promise is waited for."""
        answer = self.command('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(answer['exceptionDetails'].get('exception', {}).get('description', answer['exceptionDetails']['text']))
        return answer['result'].get('value')

    def click(self, script):
        """A real click in the middle of the element that the script gives."""
        box = self(f'(() => {{ const e = {script}; e.scrollIntoView({{block: "center", behavior: "instant"}}); const r = e.getBoundingClientRect();'
                   ' return [r.x + r.width / 2, r.y + r.height / 2]; })()')
        for kind in ('mousePressed', 'mouseReleased'):
            self.command('Input.dispatchMouseEvent', type=kind, x=box[0], y=box[1], button='left', clickCount=1)

    def type(self, text):
        self.command('Input.insertText', text=text)

    def screenshot(self, file, whole=True):
        image = self.command('Page.captureScreenshot', format='png', captureBeyondViewport=whole)
        Path(file).write_bytes(base64.b64decode(image['data']))
