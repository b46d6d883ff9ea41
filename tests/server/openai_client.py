"""The official client of OpenAI's interface against `lockstep serve`: openai_client.py LOCKSTEP MODEL.

Exit status 77 (skipped) where the package openai or the model is not there."""
import concurrent.futures
import json
import os
import subprocess
import sys

try:
    import openai
except ImportError:
    print("needs the Python package openai")
    sys.exit(77)

command, model = sys.argv[1], sys.argv[2]
if not os.path.exists(model):
    print("needs", model)
    sys.exit(77)

environment = {**os.environ, "LOCKSTEP_TOKEN": "secret"}
arguments = [command, "serve", "--model", model, "--port", "0", "--device", "cpu"]
server = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)
try:
    url = server.stdout.readline().split("#")[0].strip()
    client = openai.OpenAI(base_url=url + "v1", api_key="secret", max_retries=0)
    name = client.models.list().data[0].id
    assert name == os.path.basename(model), name

    def complete(prompt, **options):
        return client.completions.create(model=name, prompt=prompt, seed=1, **options)

    first = complete("Once upon a time", max_tokens=30, temperature=0.8, logprobs=3)
    assert first.usage.completion_tokens == 30 and first.choices[0].finish_reason == "length", first
    assert len(first.choices[0].logprobs.token_logprobs) == 30
    assert first.system_fingerprint.startswith("fp_")
    assert len(first.choices[0].tokens_hash) == 16

    parts = list(complete("Once upon a time", max_tokens=30, temperature=0.8, stream=True,
                          stream_options={"include_usage": True}))
    assert "".join(part.choices[0].text for part in parts if part.choices) == first.choices[0].text
    assert parts[-1].usage == first.usage, parts[-1]

    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    held = complete("Tom", max_tokens=60, presence_penalty=0.5, frequency_penalty=0.1, logit_bias={"300": -100},
                    extra_body={"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}})
    assert isinstance(json.loads(held.choices[0].text)["age"], int), held

    vectors = client.embeddings.create(model=name, input=["Tom", "Tom had a dog"])
    assert len(vectors.data) == 2 and abs(sum(x * x for x in vectors.data[1].embedding) - 1) < 1e-5, vectors

    def ask(number):
        return complete("Tom and Lily", max_tokens=8 + number, temperature=1.0).choices[0].tokens_hash

    alone = [ask(number) for number in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(16))) == alone

    for wrong, error in [({"max_tokens": 10**6}, openai.BadRequestError), ({"logit_bias": {"5": 1000}}, openai.BadRequestError)]:
        try:
            complete("a", **wrong)
            raise SystemExit(f"{wrong} was taken")
        except error:
            pass
    for call, error in [(lambda: client.completions.create(model="gpt", prompt="a"), openai.NotFoundError),
                        (lambda: client.with_options(api_key="wrong").models.list(), openai.AuthenticationError)]:
        try:
            call()
            raise SystemExit("it was taken")
        except error:
            pass

    # A model without a chat template says so; one with a template answers, whole and in parts alike.
    messages = [{"role": "user", "content": "Hi"}]
    try:
        chat = client.chat.completions.create(model=name, messages=messages, max_tokens=8, logprobs=True, top_logprobs=2)
        assert len(chat.choices[0].logprobs.content) <= 8
        stream = client.chat.completions.create(model=name, messages=messages, max_tokens=8, stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in stream) == chat.choices[0].message.content
    except openai.BadRequestError as error:
        assert "chat template" in str(error), error
    print("ok")
finally:
    server.terminate()
    server.wait(20)
