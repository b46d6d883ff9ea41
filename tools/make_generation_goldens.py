"""Writes tests/data/language/generation.json: perplexity, beam search and thinned-out logits by transformers and torch.

make_generation_goldens.py STORIES260K_FOLDER, whose config.json and model.safetensors (or stories260K.safetensors) and
greedy_once_upon.json are read. With transformers 5.23 and torch 2.15."""
import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers
from transformers.generation import logits_process

folder = pathlib.Path(sys.argv[1])
torch.manual_seed(1)
config = transformers.LlamaConfig.from_json_file(folder / "config.json")
config._attn_implementation = "eager"
model = transformers.LlamaForCausalLM(config).eval()
missing, unexpected = model.load_state_dict(safetensors.torch.load_file(folder / "stories260K.safetensors"), strict=False)
assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
model.tie_weights()
model = model.double()
greedy = json.loads((folder / "greedy_once_upon.json").read_text())
prompt = greedy["prompt_ids_with_bos"]
text = prompt + greedy["greedy_continuation_ids_200"]


# llama.cpp's chunks: the second half counts, each chunk begins with the token of beginnings.
def perplexity(tokens, context):
    own = []
    for begin in range(0, len(tokens) - context + 1, context):
        chunk = [1] + tokens[begin + 1:begin + context]
        logits = torch.log_softmax(model(torch.tensor([chunk])).logits[0], -1)
        own += [logits[i, chunk[i + 1]].item() for i in range(context // 2, context - 1)]
    mean = -sum(own) / len(own)
    variance = sum(x * x for x in own) / len(own) - mean * mean
    value = float(torch.tensor(mean, dtype=torch.float64).exp())
    return {"context": context, "value": value, "error": (variance / (len(own) - 1)) ** 0.5 * value, "scored": len(own)}


def beams(count, tokens):
    result = model.generate(torch.tensor([prompt]), num_beams=count, num_return_sequences=count, max_new_tokens=tokens,
                            do_sample=False, eos_token_id=None, pad_token_id=0, length_penalty=1.0,
                            return_dict_in_generate=True, output_scores=True)
    return {"beams": count, "tokens": [row[len(prompt):].tolist() for row in result.sequences],
            "scores": result.sequences_scores.tolist()}


def thinned():
    rows = []
    for _ in range(8):
        logits = torch.randn(1, 40) * 2.5
        seen = torch.randint(0, 40, (1, 12))
        kept = lambda warper: torch.isfinite(warper(seen, logits.clone()))[0].nonzero()[:, 0].tolist()
        rows.append({"logits": logits[0].tolist(), "seen": seen[0].tolist(),
                     "repetition_1.3": logits_process.RepetitionPenaltyLogitsProcessor(1.3)(seen, logits.clone())[0].tolist(),
                     "typical_0.4": kept(logits_process.TypicalLogitsWarper(0.4)),
                     "typical_0.8": kept(logits_process.TypicalLogitsWarper(0.8))})
    return rows


with torch.no_grad():
    golden = {"prompt": prompt, "text": text, "perplexity": [perplexity(text, n) for n in (32, 64, 101)],
              "beam_search": [beams(3, 12), beams(4, 20)], "thinned": thinned()}
path = pathlib.Path(__file__).parent.parent / "tests/data/language"
path.mkdir(parents=True, exist_ok=True)
(path / "generation.json").write_text(json.dumps(golden) + "\n")
