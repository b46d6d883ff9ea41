"""The official client of OpenAI's interface against `lockstep serve`: openai_client.py LOCKSTEP MODEL.

Exit status 77 (skipped) where the package openai or the model is not there."""
import concurrent.futures
import json
import os
import subprocess
import pathlib
import sys
import tempfile
import typing

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from templated_model import with_template

try:
    import openai
    import pydantic
except ImportError:
    print("needs the Python package openai")
    sys.exit(77)

command, model = sys.argv[1], sys.argv[2]
if not os.path.exists(model):
    print("needs", model)
    sys.exit(77)

# Calls as Qwen writes them; thoughts where they are asked for.
TEMPLATE = """{{ bos_token }}{% for m in messages %}{{ m.content }} {% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endfor %}{% if think and add_generation_prompt %}<think>{% endif %}"""
FIND = {"type": "object", "properties": {"kind": {"enum": ["cat", "dog"]}}, "required": ["kind"], "additionalProperties": False}


def check_chats(client):
    messages = [{"role": "user", "content": "Tom had a"}]

    def chat(**options):
        return client.chat.completions.create(model="stories", messages=messages, seed=1, **options)

    both = chat(n=2, max_tokens=12)
    alone = [client.chat.completions.create(model="stories", messages=messages, seed=seed, max_tokens=12) for seed in (1, 2)]
    assert [c.message.content for c in both.choices] == [a.choices[0].message.content for a in alone], both
    texts = ["", ""]
    for chunk in chat(n=2, max_tokens=12, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [c.message.content for c in both.choices], texts

    thinking = {"chat_template_kwargs": {"think": True}}
    thoughts = chat(max_tokens=12, extra_body=thinking).choices[0].message
    assert thoughts.reasoning_content and thoughts.content == "", thoughts
    streamed = [c.choices[0].delta for c in chat(max_tokens=12, stream=True, extra_body=thinking)]
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in streamed) == thoughts.reasoning_content, streamed

    tools = [{"type": "function", "function": {"name": "find", "parameters": FIND}}]
    call = chat(tools=tools, tool_choice="required", parallel_tool_calls=False, max_tokens=150).choices[0]
    assert call.finish_reason == "tool_calls" and call.message.tool_calls[0].function.name == "find", call
    check_parsed_calls(client, messages)


class Place(pydantic.BaseModel):
    name: str
    rooms: list[int]


class Search(pydantic.BaseModel):
    """Looks for a pet."""
    kind: typing.Literal["cat", "dog"]
    places: list[Place]
    tame: bool


# The client's own objects: arguments that it has checked and parsed by the models above, whole and streamed.
def check_parsed_calls(client, messages):
    tools = [openai.pydantic_function_tool(Search), openai.pydantic_function_tool(Place)]
    rooms = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 1, "maxItems": 2}
    for definitions in (tools[0]["function"]["parameters"]["$defs"]["Place"], tools[1]["function"]["parameters"]):
        definitions["properties"] |= {"rooms": rooms, "name": {"type": "string", "maxLength": 6}}
    tools[0]["function"]["parameters"]["properties"]["places"] |= {"minItems": 1, "maxItems": 2}
    asked = {"model": "stories", "seed": 1, "messages": messages, "tools": tools, "parallel_tool_calls": False, "max_tokens": 400}
    for name, kind in (("Search", Search), ("Place", Place)):
        choice = {"type": "function", "function": {"name": name}}
        whole = client.chat.completions.parse(**asked, tool_choice=choice).choices[0]
        call = whole.message.tool_calls[0]
        assert whole.finish_reason == "tool_calls" and call.function.name == name, whole
        parsed = call.function.parsed_arguments
        assert isinstance(parsed, kind) and parsed == kind.model_validate_json(call.function.arguments), call
        with client.chat.completions.stream(**asked, tool_choice=choice) as stream:
            for event in stream:
                pass
            last = stream.get_final_completion().choices[0].message.tool_calls[0]
        assert last.function.parsed_arguments == parsed and last.function.name == name, last
        told = [*messages, whole.message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True) | {"content": ""},
                {"role": "tool", "tool_call_id": call.id, "content": "It is here."}]
        after = client.chat.completions.create(model="stories", seed=1, messages=told, tools=tools, tool_choice="none", max_tokens=8)
        assert after.choices[0].message.tool_calls is None and after.choices[0].message.content, after
    either = client.chat.completions.parse(**asked, tool_choice="required").choices[0].message.tool_calls
    assert [type(c.function.parsed_arguments) for c in either] in ([Search], [Place]), either


def check_responses(client):
    def respond(**options):
        options.setdefault("input", "Tom had a")
        return client.responses.create(model="stories", extra_body={"seed": 1}, **options)

    whole = respond(instructions="Be short.", max_output_tokens=12)
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens", whole
    assert whole.output_text and whole.usage.output_tokens == 12 and whole.instructions == "Be short.", whole
    same = client.chat.completions.create(model="stories", seed=1, max_tokens=12, messages=[
        {"role": "system", "content": "Be short."}, {"role": "user", "content": "Tom had a"}])
    assert same.choices[0].tokens_hash == whole.tokens_hash and same.choices[0].message.content == whole.output_text

    events = list(respond(instructions="Be short.", max_output_tokens=12, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert [e.type for e in events[:4]] == ["response.created", "response.in_progress", "response.output_item.added",
                                           "response.content_part.added"], events
    assert [e.type for e in events[-4:]] == ["response.output_text.done", "response.content_part.done",
                                            "response.output_item.done", "response.incomplete"], events
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text and events[-1].response.tokens_hash == whole.tokens_hash

    thinking = client.responses.create(model="stories", input="Tom", max_output_tokens=12,
                                       extra_body={"seed": 1, "chat_template_kwargs": {"think": True}})
    assert thinking.output[0].type == "reasoning" and thinking.output[0].content[0].text, thinking
    assert 0 < thinking.usage.output_tokens_details.reasoning_tokens <= 12

    tools = [{"type": "function", "name": "find", "parameters": FIND, "strict": True}]
    with client.responses.stream(model="stories", input="Tom had a", tools=tools, tool_choice="required", parallel_tool_calls=False,
                                 max_output_tokens=150, extra_body={"seed": 1}) as stream:
        kinds = [event.type for event in stream]
        called = stream.get_final_response()
    assert "response.function_call_arguments.done" in kinds and called.status == "completed", called
    call = called.output[-1]
    assert call.type == "function_call" and call.name == "find" and json.loads(call.arguments)["kind"] in ("cat", "dog"), call
    told = [{"role": "user", "content": "Tom had a"}, *called.output,
            {"type": "function_call_output", "call_id": call.call_id, "output": "It is here."}]
    assert respond(input=told, tools=tools, tool_choice="none", max_output_tokens=12).output_text

    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"], "additionalProperties": False}
    held = respond(text={"format": {"type": "json_schema", "name": "s", "schema": schema, "strict": True}}, max_output_tokens=60)
    assert held.status == "completed" and isinstance(json.loads(held.output_text)["age"], int), held
    for wrong in ({"previous_response_id": "resp_1"}, {"tools": [{"type": "web_search"}]}, {"store": True},
                  {"max_output_tokens": 10**6}):
        try:
            respond(**wrong)
            raise SystemExit(f"{wrong} was taken")
        except openai.BadRequestError:
            pass


environment = {**os.environ, "LOCKSTEP_TOKEN": "secret"}


def serve(path, *options):
    server = subprocess.Popen([command, "serve", "--model", path, "--port", "0", "--device", "cpu", *options],
                              stdout=subprocess.PIPE, text=True, env=environment)
    url = server.stdout.readline().split("#")[0].strip()
    return server, openai.OpenAI(base_url=url + "v1", api_key="secret", max_retries=0)


with tempfile.TemporaryDirectory() as folder:
    chatty = pathlib.Path(folder) / "stories.gguf"
    chatty.write_bytes(with_template(pathlib.Path(model).read_bytes(), TEMPLATE))
    server, client = serve(str(chatty), "--name", "stories")
    try:
        check_chats(client)
        check_responses(client)
    finally:
        server.terminate()
        server.wait(20)

server, client = serve(model)
try:
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
