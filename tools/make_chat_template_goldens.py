#!/usr/bin/env python3
"""What Python's jinja2 makes of chat templates, in the sandbox and with the settings of transformers.

    pip install jinja2==3.1.6
    tools/make_chat_template_goldens.py small                 tests/data/chat_templates.json: templates written for this test
    tools/make_chat_template_goldens.py folder DIR OUT.json   every *.jinja below DIR with the conversations below
    LOCKSTEP_CHAT_TEMPLATES=OUT.json lockstep_text_tests --gtest_filter='ChatTemplate.*'

The source archive of llama-cpp-python holds some seventy published templates (vendor/llama.cpp/models/templates).
A golden is {"templates": [{"name", "source", "variables", "cases": [{"variables", "now", "text" or "error"}]}]}.
"""
import argparse
import datetime
import json
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox

REPOSITORY = Path(__file__).resolve().parent.parent
NOW = "2026-03-07 14:05:09"


class Generation(jinja2.ext.Extension):
    """{% generation %}, which only marks."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromisoformat(NOW).strftime(form)
    return env


TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a place, \"now\" & <later>.",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "Where: São Paulo"},
        "days": {"type": "integer", "enum": [1, 2, 3]}, "exact": {"type": "boolean"}}, "required": ["place"]}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": {"place": "Oslo", "days": 2}}}]}


def conversations():
    user, answer = {"role": "user", "content": "Hello, what is 2 < 3?"}, {"role": "assistant", "content": "True.\n"}
    system = {"role": "system", "content": "  Be short. "}
    more = {"role": "user", "content": "And \"4\"\n\nin Köln 🙂?"}
    thought = {"role": "assistant", "content": "<think>\nLet me see.\n</think>\n\nYes.", "reasoning_content": "Let me see."}
    parts = {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "text", "text": "here"}]}
    result = {"role": "tool", "name": "weather", "tool_call_id": "call00001", "content": "{\"rain\": 0.5}"}
    return [
        {"messages": [user], "add_generation_prompt": True},
        {"messages": [system, user], "add_generation_prompt": True},
        {"messages": [system, user, answer, more], "add_generation_prompt": True},
        {"messages": [user, answer], "add_generation_prompt": False},
        {"messages": [user, thought, more], "add_generation_prompt": True},
        {"messages": [user, thought, more], "add_generation_prompt": True, "enable_thinking": False},
        {"messages": [parts], "add_generation_prompt": True},
        {"messages": [system, user], "add_generation_prompt": True, "tools": [TOOL]},
        {"messages": [user, CALL, result], "add_generation_prompt": True, "tools": [TOOL]},
        {"messages": [user, CALL, result, answer, more], "add_generation_prompt": True, "tools": [TOOL]},
        {"messages": [answer, user, user], "add_generation_prompt": True},
        {"messages": [], "add_generation_prompt": False},
    ]


def case(template, variables):
    given = {"tools": None, "documents": None, **TOKENS, **variables}
    result = {"variables": variables, "now": NOW}
    try:
        result["text"] = template.render(**given)
    except Exception as error:  # what the template refuses, and what Python's types do
        result["error"] = f"{type(error).__name__}: {error}"
    return result


def goldens(sources, cases):
    env = environment()
    result = []
    for name, source in sources.items():
        try:
            template = env.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            print(f"{name}: no template: {error}")
            continue
        result.append({"name": name, "source": source, "variables": TOKENS, "cases": [case(template, c) for c in cases]})
    return {"templates": result}


SMALL = {
    "chat": "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>\n{{ m.content | trim }}{% if not loop.last %}\n{% endif %}"
            "{% endfor %}\n{% if add_generation_prompt %}<|assistant|>\n{% endif %}\n",
    "whitespace": "a\n   {% if true %}\n  b \n   {%- endif %}\n  {#- note -#}  \n c{{ 1 }}\n{{- 2 -}}\n  d\n {%+ if true %}e{% endif +%}\n"
                  "{% raw %}{{ no }}{% endraw %}\nend\n",
    "expressions": "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1.0 }} {{ 1e20 }} {{ 1 if false }}"
                   "{{ 1 < 2 < 3 }} {{ 'a' ~ 1 ~ none }} {{ [1, 'x', (2,), {'k': true}] }} {{ not 0 and 'y' or 'z' }}"
                   " {{ 'b' in 'abc' }} {{ 3 not in [1, 2] }} {{ 'x' * 3 }} {{ [1] + [2] }} {{ 5 - 2 - 1 }} {{ 'a' 'b' }}",
    "slices": "{{ 'héllo'[1] }} {{ 'héllo'[::-1] }} {{ [1,2,3,4][1:3] }} {{ [1,2,3,4][-2:] }} {{ 'abc'[:-1] }} {{ [1,2,3][::2] }}"
              " {{ messages[::-1] | length }} {{ 'abc'[5:] }}|",
    "loops": "{% for a, b in [(1, 2), (3, 4)] %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ a }}{{ b }};{% endfor %}"
             "{% for x in range(10) if x % 2 %}{{ x }}{% if x > 4 %}{% break %}{% endif %}{{ loop.length }}{% else %}none{% endfor %}"
             "{% for x in [] %}{% else %}empty{% endfor %}{% for x in 'ab' %}{{ loop.previtem }}{{ loop.cycle('p', 'q') }}{% endfor %}"
             "{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}={{ v }},{% endfor %}{% for x in range(5) %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "scopes": "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% set ns = namespace(n=0) %}"
              "{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}"
              "{% set text %}in {{ x }}{% endset %}{{ text | upper }}{% set a, b = 1, 2 %}{{ a + b }}",
    "macros": "{% macro tag(name, inside='-', n=2) %}<{{ name }}>{{ inside * n }}{{ varargs | length }}</{{ name }}>{% endmacro %}"
              "{{ tag('a') }}{{ tag('b', 'c', n=3) }}{{ tag('d', 'e', 1, 5, 6) }}{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"
              "{% macro w() %}[{{ caller() }}]{% endmacro %}{% call w() %}x{% endcall %}{% filter upper %}abc{% endfilter %}",
    "filters": "{{ messages | tojson }}{{ {'b': [1, 2.5, none], 'a': 'é\"'} | tojson(indent=2) }}{{ [3, 1, 2] | sort | join('-') }}"
               "{{ {'B': 1, 'a': 2} | dictsort }}{{ ' x ' | trim }}{{ missing | default('d') }}{{ '' | default('e', true) }}"
               "{{ [1, 2, 3] | first }}{{ 'abc' | last }}{{ 'aXbX' | replace('X', '.') }}{{ 'two words' | title }}{{ 'ÄB' | lower }}{{ 'aB' | capitalize }}"
               "{{ messages | map(attribute='role') | list }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
               "{{ [1, none, 2] | reject('none') | list }}{{ [1, 2, 3] | select('odd') | list }}{{ ['b', 'A', 'b'] | unique | list }}"
               "{{ [1, 2] | sum }}{{ 'a\nb' | indent(2) }}{{ '42' | int + 1 }}{{ 'x' | int }}{{ 3.7 | int }}{{ 'ab' | list }}{{ 5 | string ~ '!' }}"
               "{{ 2.5 | round }}{{ -3 | abs }}{{ '<a>' | e }}{{ [1, 5, 2] | max }}{{ {'a': 1} | items | list }}{{ 'abc' | reverse }}{{ 'héé' | length }}",
    "tests": "{{ x is defined }}{{ x is undefined }}{{ none is none }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is sequence }}{{ [] is iterable }}"
             "{{ 1 is number }}{{ true is boolean }}{{ 3 is odd }}{{ 4 is divisibleby 2 }}{{ 4 is not divisibleby(3) }}{{ 1 is eq 1 }}{{ 'a' is in 'abc' }}"
             "{{ 1.5 is float }}{{ 1 is integer }}{{ true is true }}{{ 1 is sameas 1 }}{{ messages[0].nothing is not defined }}",
    "methods": "{{ ' a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|"
               "{{ 'abc'.startswith('ab') }}|{{ 'abc'.endswith(('x', 'c')) }}|{{ 'abc'.upper() }}|{{ '-'.join(['a', 'b']) }}|{{ 'hello'.find('l') }}|"
               "{{ {'a': 1}.get('b', 2) }}|{{ {'a': 1}.keys() | list }}|{{ 'a\nb\r\nc'.splitlines() }}|{{ 'aa'.count('a') }}|{{ 'abab'.replace('a', 'c', 1) }}|"
               "{{ 'x' 'y'.lstrip('x') }}|{{ 'ß'.lower() }}|{{ '12'.isdigit() }}|{{ '{} {{{0}}} {a}'.format(1, a='x') if false else '{}-{}'.format(1, 'b') }}|{{ '{1}{0}{{}}{k}'.format(1, 2, k=3) }}",
    "date": "{{ strftime_now('%d %B %Y, %A %b %H:%M:%S %-d') }}",
    "refusal": "{% if not messages %}{{ raise_exception('nothing to say') }}{% endif %}{{ messages[0]['content'] }}{{ messages[0].a.b }}",
    "generation": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("small", "folder"))
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args()
    if options.what == "small":
        out = REPOSITORY / "tests/data/chat_templates.json"
        made = goldens(SMALL, [conversations()[i] for i in (0, 2, 11)])
    else:
        folder, out = options.paths
        sources = {str(p.relative_to(folder)): p.read_text() for p in sorted(Path(folder).rglob("*.jinja"))}
        made = goldens(sources, conversations())
    Path(out).write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n")
    print(f"{out}: {len(made['templates'])} templates, {sum(len(t['cases']) for t in made['templates'])} cases")


if __name__ == "__main__":
    main()
