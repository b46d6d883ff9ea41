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
    "with": "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% set c = 5 %}{{ c }}{% endwith %}{{ a }}{{ b is defined }}{{ c is defined }}"
            "{% with %}x{% endwith %}{% with x, y = (3, 4) %}{{ x * y }}{% endwith %}\n  {% with t = 'u' -%}\n  {{ t }}\n  {% endwith %}\n|",
    "recursion": "{% for n in [{'t': 'a', 'c': [{'t': 'b', 'c': [{'t': 'c'}]}, {'t': 'd'}]}, {'t': 'e', 'c': []}] recursive %}"
                 "{{ '  ' * loop.depth0 }}{{ loop.index }}/{{ loop.length }}:{{ n.t }}@{{ loop.depth }}\n{{ loop(n.c) if n.c }}{% else %}-{% endfor %}"
                 "{% for k, v in {'p': {'q': {'r': 1}}, 's': 2}.items() recursive %}{{ k }}{% if v is mapping %}[{{ loop(v.items()) }}]{% else %}={{ v }}{% endif %};{% endfor %}"
                 "{% for x in [3, 4, 5] if x % 2 recursive %}{{ x }}{% if x == 5 and loop.depth < 3 %}({{ loop([5, 6, 7]) }}){% endif %}{% endfor %}"
                 "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{% endfor %}",
    "nested_targets": "{% for i, (k, v) in [(1, ('a', 'b')), (2, ('c', 'd'))] %}{{ i }}{{ k }}{{ v }};{% endfor %}{% for (a, (b, c)), d in [((1, (2, 3)), 4)] %}{{ a }}{{ b }}{{ c }}{{ d }}{% endfor %}"
                      "{% set a, (b, c) = 1, (2, 3) %}{{ a + b + c }}",
    "groupby": "{% for g in messages | groupby('role') %}{{ g.grouper }}:{{ g.list | length }}{{ g[0] }};{% endfor %}{% for r, ms in messages | groupby('role') %}{{ r }}{{ ms | map(attribute='content') | join('/') }};{% endfor %}"
               "{{ [{'x': 'b'}, {'x': 'A'}, {'x': 'a'}, {'x': 'B'}] | groupby('x') }}{{ [{'x': 'b'}, {'x': 'A'}, {'x': 'a'}] | groupby('x', case_sensitive=true) | map('first') | list }}"
               "{{ [{'x': 2}, {}] | groupby('x', default=1) | list }}{{ [(1, 'a'), (2, 'b'), (1, 'c')] | groupby(0) | list }}",
    "batches": "{{ [1, 2, 3, 4, 5] | batch(2) | list }}{{ [1, 2, 3, 4, 5] | batch(3, '-') | list }}{{ [] | batch(2) | list }}{{ 'abc' | batch(2) | list }}"
               "{{ [1, 2, 3, 4, 5] | slice(3) | list }}{{ [1, 2, 3, 4, 5, 6, 7] | slice(3, 'x') | list }}{{ [1] | slice(3) | list }}{{ [1, 2, 3, 4] | slice(2, 0) | list }}",
    "case": "{{ 'straße ǆ ﬁn' | upper }}|{{ 'ÅÉÎ ΑΣ ΑΣΑ Σ ΑΣ. ΑΣ.Α İI' | lower }}|{{ \"it's o'neil-ward (été) [ñu] <ǆ> élan\" | title }}|{{ \"it's élan ǆ x2y ῼa ﬁ\".title() }}|"
            "{{ 'ßa ÉÀ' | capitalize }}|{{ 'ǆA'.capitalize() }}|{{ 'éÀ'.upper() }}|{{ 'привет МИР' | title }}|{{ 'ქართული'.upper() }}|{{ 'ქართული'.title() }}|{{ 'É' is upper }}{{ 'é' is lower }}{{ '1' is lower }}"
            "|{{ 'Ünï'.isalpha() }}{{ 'a1'.isalnum() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ ' \\u2003'.isspace() }}{{ 'éa'.islower() }}{{ 'ÉA1'.isupper() }}{{ ''.isalpha() }}{{ 'é'.isascii() }}",
    "numbers": "{{ '0x1F' | int(base=16) }} {{ '1f' | int(0, 16) }} {{ '0b101' | int(base=2) }} {{ '0o17' | int(base=0) }} {{ '0x1g' | int(7, 16) }} {{ '12' | int(base=3) }} {{ 'zz' | int(base=36) }} {{ '42.7' | int }} {{ '+5' | int }}"
               " {{ '1_000' | int }} {{ '1__0' | int(3) }} {{ ' -3 ' | int }} {{ '1e3' | int }} {{ 'inf' | int(9) }} {{ 'nan' | int(8) }} {{ none | int(4) }} {{ [] | int(2) }} {{ true | int }} {{ '+1.5' | float }} {{ 'x' | float(2.5) }} {{ '1e400' | float }}"
               " {{ 5 | round }} {{ 2.675 | round(2) }} {{ 2.5 | round }} {{ 3.14159 | round(3) }} {{ 7 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.19 | round(1, 'floor') }} {{ 1e22 | round }} {{ true | abs }}",
    "formats": "{{ '%s-%d' | format('a', 3) }}|{{ '%(x)s=%(y)05.1f' | format(x='k', y=2.25) }}|{{ '%5s|%-5s|%05d|%+d|%x|%X|%o|%#x|%e|%g|%%|%.2s|%r' | format('a', 'b', 42, 7, 255, 255, 8, 255, 12345.678, 0.0001, 'xyz', 'q') }}|{{ '%d' % 3.9 }}|{{ '%s %s' % (1, [2]) }}|{{ 'x%%' % () }}|{{ '%*d' % (5, 3) }}"
               "|{{ '{:>8}|{:<4}|{:^5}|{:05d}|{:,}|{:.2f}|{:x}|{:#b}|{:+}|{:%}|{!r}|{:.3}|{:e}|{:*^7}|{a:3}'.format('x', 'y', 'z', 42, 1234567, 3.14159, 255, 5, 3, 0.25, 'q', 'abcdef', 12345.0, 'm', a=1) }}|{{ '{:.1%}'.format(0.256) }}|{{ '{:10.3f}|{:<6}|{:6}'.format(2.5, 1.5, 2) }}|{{ '{:,.2f}'.format(1234567.891) }}",
    "texts": "[{{ 'ab' | center(7) }}][{{ 'abc' | center(6) }}][{{ 'é'.center(4, '*') }}][{{ 'a'.ljust(3, '.') }}][{{ 'a'.rjust(3) }}][{{ '-7'.zfill(4) }}][{{ '7'.zfill(3) }}]"
             "{{ 'one two three four' | truncate(10) }}|{{ 'one two three four' | truncate(10, true) }}|{{ 'one two three' | truncate(9, leeway=0) }}|{{ 'one two three' | truncate(9, false, '…', 0) }}|{{ 'short' | truncate(4) }}"
             "|{{ 'one, two-three 4 é_x' | wordcount }}|{{ '<a>' | safe | forceescape }}|{{ '<a>' | e is escaped }}{{ 'a' is escaped }}"
             "|{{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'a'.partition('=') }}{{ 'a'.rpartition('=') }}|{{ 'abca'.rindex('a') }}|{{ 'a\r\nb\n\nc' | indent(2, true) }}|{{ 'a\n\nb' | indent(1, blank=true) }}",
    "reprs": "{{ ['a\u00a0b', 'é\u200b', '\u2028', '\U000e0001', \"it's\", '\"', '\\x00\\x7f\\x85'] }}",
    "attributes": "{{ [{'a': 2, 'b': 1}, {'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b') }}{{ [{'a': 2}, {'a': 5}] | max(attribute='a') }}{{ ['b', 'A'] | min }}{{ ['b', 'A', 'B'] | max(case_sensitive=true) }}"
                  "{{ [[3, 'x'], [1, 'y']] | sort(attribute=0) }}{{ [{'x': {'y': 3}}, {'x': {'y': 1}}] | sort(attribute='x.y', reverse=true) }}",
    "globals": "{% set j = joiner() %}{% for x in [1, 2, 3] %}{{ j() }}{{ x }}{% endfor %}"
               "{% set p = joiner('|') %}{{ p() }}{{ p() }}{{ p() }}",
    "stars": "{% macro f(a, b, c=3) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(1, *(2, 4, 5)) }}{{ f(**{'a': 1, 'b': 2, 'z': 9}) }}{{ f(1, *[2], **{'c': 7}) }}{{ range(*[2, 5]) | list }}{{ dict(**{'q': 1}) }}",
    "generation": "{% for m in messages %}{% generation %}{{ m.content }}{% set seen = 1 %}{% endgeneration %}{{ seen is defined }}{% endfor %}",
    "places": "{{ 'héllo'.find('l', 3) }}{{ 'héllo'.find('l', 4) }}{{ 'héllo'.rfind('l', 0, 3) }}{{ 'héllo'.index('l', -2) }}{{ 'héllo'.startswith('l', 2) }}{{ 'héllo'.startswith(('x', 'él'), 1, 3) }}"
              "{{ 'héllo'.endswith('l', 0, -1) }}{{ 'héllo'.count('l', 3) }}{{ 'héllo'.count('', 3) }}{{ 'abc'.find('', 3) }}{{ 'abc'.find('', 4) }}{{ 'abc'.count('', 2, 1) }}{{ 'abc'.startswith('', none, 2) }}{{ 'a\nb\r\n'.splitlines(true) }}",
    "one_target": "{% for (a,) in [(1,), (2,)] %}{{ a }};{% endfor %}{% for a, (b,) in [(1, (2,))] %}{{ a }}{{ b }}{% endfor %}{% for ((a, b),) in [((1, 2),)] %}{{ a }}{{ b }}{% endfor %}{% set (a,) = [5] %}{{ a }}",
    "namespaces": "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}{% set ns.c | upper %}text{% endset %}{{ ns.c }}{{ ns | attr('c') }}",
    "literals": "{{ 1_000 }} {{ [[1, 2], [3, 4]].0.1 }}{{ '\\101\\33\\0' }}{{ +true }}{{ -true }}{{ '%s|' % missing }}",
    "not_trimmed": "{% raw %}\n{{ x }}\n{% endraw %}\nb\n  {%- raw -%}\n y {%- endraw +%}\n",
    "lookups": "{{ [{'x': 'b'}, {'x': 'a'}] | groupby('x') | map(attribute='grouper') | list }}{{ [{'x': 'b'}] | groupby('x') | map(attribute='list') | list }}|{{ {'a': 1} | attr('a') }}|{{ missing is sequence }}{{ {'k': [1]} | tojson(true) }}{{ {'k': ['é']} | tojson(true, 2) }}",
    "clock": "{{ strftime_now('%I:%M %p') }}",
    "undefined_number": "{{ missing | int }}",
    "undefined_float": "{{ missing | float }}",
    "zero_power": "{{ 0 ** -1 }}",
    "plus_text": "{{ +'a' }}",
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
