"""Python 2 files run here as they did: each case prints what Python 2.7 prints, and Python 2.7 is asked where there is one."""

from __future__ import annotations

import os
import pickle
import subprocess
import time
from pathlib import Path

import pytest

from umiak.errors import InputError
from umiak.paddle_v1.language.modules import Modules

CASES = {
    "print statements": (
        "print 'a', 1,\nprint\nprint 'b %s' % 'c'\nprint ('x')\nprint\nprint 'tail',\nprint 'same line'",
        "a 1\nb c\nx\n\ntail same line\n",
    ),
    "whole numbers divide to whole numbers": (
        "print 7 / 2, -7 / 2, 7 / 2.0, 7 // 2, 1 / 4 * 4\nx = 9\nx /= 2\nprint x\nd = {'n': [5]}\nd['n'][0] /= 2\nprint d['n']",
        "3 -4 3.5 3 0\n4\n[2]\n",
    ),
    "true division when asked for": ("from __future__ import division\nprint 7 / 2\n", "3.5\n"),
    "print as a function when asked for": (
        "from __future__ import print_function\nprint('a', 'b', sep='-')\n",
        "a-b\n",
    ),
    "exceptions with commas": (
        "try:\n    raise ValueError, 'bad'\nexcept (KeyError, ValueError), e:\n    print e\n"
        "try:\n    {}['k']\nexcept KeyError, e:\n    print repr(e.args)",
        "bad\n('k',)\n",
    ),
    "dictionaries": (
        "d = {'a': 1}\nprint d.has_key('a'), d.has_key('b'), d.keys(), d.values(), d.items()\n"
        "for k, v in d.iteritems():\n    print k, v\nprint list(d.iterkeys()), list(d.itervalues())\n"
        "k = d.keys()\nk.append('z')\nprint k\nfor key in d.keys():\n    del d[key]\nprint d",
        "True False ['a'] [1] [('a', 1)]\na 1\n['a'] [1]\n['a', 'z']\n{}\n",
    ),
    "lists from range, map, filter and zip": (
        "r = range(5)\nr[0] = 9\nprint r, range(2) + range(2)\nprint map(lambda x: x * 2, [1, 2]), map(None, [1], [2, 3])\n"
        "print filter(None, [0, 1, 2]), filter(str.isalpha, 'a1b'), zip('ab', (1, 2))\n"
        "print sum(xrange(4)), len(map(int, '123'))",
        "[9, 1, 2, 3, 4] [0, 1, 0, 1]\n[2, 4] [(1, 2), (None, 3)]\n[1, 2] ab [('a', 1), ('b', 2)]\n6 3\n",
    ),
    "sorting by comparison": (
        "print sorted([3, 1, 2], cmp=lambda a, b: cmp(b, a)), sorted([1, 2], lambda a, b: b - a)\nl = ['b', 'a']\n"
        "l.sort(lambda a, b: cmp(a, b))\nprint l\nl.sort(key=lambda x: x, reverse=True)\nprint l\n"
        "print sorted({'x': 2, 'y': 1}.items(), key=lambda (k, v): v)",
        "[3, 2, 1] [2, 1]\n['a', 'b']\n['b', 'a']\n[('y', 1), ('x', 2)]\n",
    ),
    "old numbers and quotes": (
        "print 0777, 0xffL, 10L + 1, `[1, 2]`, 1 <> 2\nprint long(3), int('12'), isinstance(3, (int, long))",
        "511 255 11 [1, 2] True\n3 12 True\n",
    ),
    "tuples as parameters": (
        "def f((a, b), c):\n    return a + b + c\nprint f((1, 2), 3)\n",
        "6\n",
    ),
    "iterators with next": (
        "class Count:\n    def __init__(self):\n        self.n = 0\n    def __iter__(self):\n        return self\n"
        "    def next(self):\n        self.n += 1\n        if self.n > 3:\n            raise StopIteration\n"
        "        return self.n\n"
        "print list(Count()), Count().next(), iter([7]).next()\ng = (i for i in 'ab')\nprint g.next()",
        "[1, 2, 3] 1 7\na\n",
    ),
    "byte strings": (
        "s = 'caf\\xc3\\xa9'\nprint len(s), s[3:] == '\\xc3\\xa9', s.decode('utf-8') == u'caf\\xe9', len(s.decode('utf8'))\n"
        "print 'à b'.split() == ['\\xc3\\xa0', 'b'], len('à'), 'À'.lower() == 'À', u'À'.lower() == u'à'\n"
        "print u'caf\\xe9'.encode('utf-8') == s, '\\u0041' == '\\\\u0041', len(u'\\u0041'), ur'\\u0041\\d' == u'A\\\\d'\n"
        "print 'à\\x85b c'.split(), '\\xa0x\\xa0'.strip() == '\\xa0x\\xa0', b'ab' == 'ab', str(12), 'ab'.encode('hex')",
        "5 True True 4\nTrue 2 True True\nTrue True 1 True\n['\\xc3\\xa0\\x85b', 'c'] True True 12 6162\n",
    ),
    "kinds of text": (
        "print isinstance('a', basestring), isinstance(u'a', basestring), isinstance(u'a', unicode), isinstance('a', unicode)\n"
        "print isinstance('\\xe9'.decode('latin-1'), unicode), isinstance('a' + u'b', unicode), unichr(65), unicode('a')\n"
        "print unicode('caf\\xc3\\xa9', 'utf-8') == u'caf\\xe9', u'a,b'.split(',') == ['a', 'b'], {u'k': 1}['k']",
        "True True True False\nTrue True A a\nTrue True 1\n",
    ),
    "old modules": (
        "import cPickle, cStringIO, StringIO, string, itertools, sys, Queue, urllib2, urllib, urlparse, re, struct, md5, json\n"
        "import collections, ConfigParser\n"
        "print cPickle.loads(cPickle.dumps({'a': [1, 'é']})) == {'a': [1, 'é']}, cStringIO.StringIO('a\\nb').readlines()\n"
        "out = StringIO.StringIO()\nprint >>out, 'x', 1\n"
        "print repr(out.getvalue()), string.letters[:3], string.join(['a', 'b'])\n"
        "print list(itertools.izip('ab', 'cd')), sys.maxint == 9223372036854775807, urllib.quote('a b')\n"
        "print re.split(r'\\s+', 'à b') == ['à', 'b'], re.findall(r'\\w', 'é') == [], struct.unpack('<H', 'ab')\n"
        "print md5.new('a').hexdigest()[:6], json.loads('[\"é\"]') == [u'é'], isinstance([], collections.Iterable)\n"
        "print 'abc'.translate(string.maketrans('ab', 'xy')), 'a-b'.translate(None, '-')",
        "True ['a\\n', 'b']\n'x 1\\n' abc a b\n[('a', 'c'), ('b', 'd')] True a%20b\nTrue True (25185,)\n"
        "0cc175 True True\nxyc ab\n",
    ),
    "names that are gone": (
        "print reduce(lambda a, b: a + b, [1, 2, 3]), cmp(1, 2), apply(max, (1, 5)), round(2.5), round(-1.25, 1), intern('a')\n"
        "exec 'y = 3 / 2'\nprint y\nns = {}\nexec 'z = 4' in ns\nprint ns['z']",
        "6 -1 5 3.0 -1.3 a\n1\n4\n",
    ),
    "classes": (
        "class M(type):\n    def __new__(c, n, b, d):\n        d['made'] = n\n        return type.__new__(c, n, b, d)\n"
        "class A(object):\n    __metaclass__ = M\n    def __nonzero__(self):\n        return False\n    def __div__(self, x):\n"
        "        return 'div'\nprint A.made, bool(A()), A() / 2, (lambda: 0).func_name",
        "A False div <lambda>\n",
    ),
    "files of decoded text": (
        "import codecs, io, os, tempfile\nname = os.path.join(tempfile.mkdtemp(), 'x')\n"
        "with codecs.open(name, 'w', 'utf-8') as f:\n    f.write(u'\\xc9t\\xe9\\n')\n"
        "print [line.strip().lower() == u'\\xe9t\\xe9' for line in codecs.open(name, 'r', 'utf-8')], len(open(name).read())\n"
        "print io.open(name, encoding='utf-8').read().lower() == u'\\xe9t\\xe9\\n'\n"
        "print isinstance(io.open(name, encoding='utf-8').readline(), unicode)\n"
        "os.remove(name)\nos.rmdir(os.path.dirname(name))",
        "[True] 6\nTrue\nTrue\n",
    ),
    "hashes that do not change from run to run": (
        "print hash('word'), hash(''), hash('caf\\xc3\\xa9'), hash(('a', 3)), hash(())\n"
        "print hash(7), hash(-1) % 10, hash('x' * 40) % 97",
        "-3668921459620339356 0 -8502809815083350713 -3828833845466381958 3527539\n7 8 19\n",
    ),
    "tabs and blanks mixed": ("if True:\n        x = 1\n\ty = 2\nprint x + y\n", "3\n"),
}


def run(directory: Path, source: str | bytes, name: str = "case.py") -> Modules:
    path = directory / name
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    modules = Modules((directory,))
    modules.run(path)
    return modules


def with_cookie(source: str) -> str:
    return f"# -*- coding: utf-8 -*-\n{source}\n"


@pytest.mark.parametrize("case", CASES)
def test_prints_what_python_2_prints(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, printed = CASES[case]
    run(tmp_path, with_cookie(source))
    assert capsys.readouterr().out == printed


def python2() -> str | None:
    for program in (os.environ.get("PYTHON2", ""), "python2.7", "python2"):
        try:
            done = subprocess.run([program, "-c", "print 1"], capture_output=True, timeout=30, check=False)
        except OSError:
            continue
        if done.stdout == b"1\n":
            return program
    return None


@pytest.mark.skipif(python2() is None, reason="no Python 2 here; PYTHON2 names one")
@pytest.mark.parametrize("case", CASES)
def test_python_2_agrees(case: str, tmp_path: Path) -> None:
    source, printed = CASES[case]
    path = tmp_path / "case.py"
    path.write_text(with_cookie(source))
    done = subprocess.run([str(python2()), str(path)], capture_output=True, timeout=30, check=False)
    assert done.stdout.decode() == printed, done.stderr.decode()


def test_words_of_files_and_pickles_are_the_same_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "words.txt").write_bytes("café à\nnaïve\n".encode())
    (tmp_path / "latin.txt").write_bytes("café\n".encode("latin-1"))
    # As Python 2 pickles {'café': 1}, protocol 0: the key is a string of bytes.
    (tmp_path / "dict.pkl").write_bytes(b"(dp1\nS'caf\\xc3\\xa9'\np2\nI1\ns.")
    source = f"""
import cPickle, gzip
words = cPickle.load(open('{tmp_path}/dict.pkl', 'rb'))
for line in open('{tmp_path}/words.txt'):
    print [words.get(w, 0) for w in line.strip().split()], len(line)
f = open('{tmp_path}/latin.txt')
print len(f.readline()), repr(f.read())
print 'caf\\xe9\\n' == open('{tmp_path}/latin.txt', 'rb').read()
with open('{tmp_path}/out.txt', 'w') as out:
    print >>out, 'caf\\xe9', 1
    out.write('end')
g = gzip.open('{tmp_path}/out.gz', 'wb')
g.write('caf\\xe9')
g.close()
print [line == 'caf\\xe9' for line in gzip.open('{tmp_path}/out.gz')]
"""
    run(tmp_path, source)
    assert capsys.readouterr().out == "[1, 0] 9\n[0] 7\n5 ''\nTrue\n[True]\n"
    assert (tmp_path / "out.txt").read_bytes() == b"caf\xe9 1\nend"


def test_classes_of_files_beside_are_found_by_pickles(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text("class Point:\n    pass\n")
    (tmp_path / "point.pkl").write_bytes(b"(ishapes\nPoint\np0\n(dp1\nS'x'\np2\nI3\nsb.")
    modules = run(tmp_path, f"import pickle\nx = pickle.load(open('{tmp_path}/point.pkl')).x\n")
    assert modules._loaded["__config__"].x == 3


def test_line_numbers_survive(tmp_path: Path) -> None:
    source = "class A:\n    __metaclass__ = type\n    x = 1\n\n"
    source += "def f((a, b)):\n    '''two\n    lines'''\n    return a / b\n\nf((1, 0))\n"
    with pytest.raises(InputError, match=r"case\.py:8: ZeroDivisionError"):
        run(tmp_path, source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\nif x\n    print x\n", r"case\.py:2 is not Python: the line ends too early"),
        ("print 'a'\nx = (1,\n", r"case\.py:\d is not Python"),
        ("x = '''abc\n", r"case\.py:\d is not Python"),
        ("def f():\n    pass\n  x = 1\n", r"case\.py:3 is not Python"),
        ("\x00\x01", r"case\.py:1 is not Python: it contains zero bytes"),
        ("import nothing_like_this\n", r"case\.py:1: ModuleNotFoundError"),
        ("\n\nundefined_name\n", r"case\.py:3: NameError: name 'undefined_name' is not defined"),
        ("import paddle.v2 as paddle\n", r"^[^:]*case\.py:1: umiak has no paddle\.v2"),
        ("import sys\nsys.exit(3)\n", r"case\.py:2: SystemExit: 3"),
    ],
)
def test_what_cannot_be_understood_is_named_with_its_line(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(tmp_path, source)


@pytest.mark.parametrize(
    "imported",
    ["from six.moves import cPickle", "import six\ncPickle = six.moves.cPickle", "import six.moves.cPickle as cPickle"],
)
def test_pickles_of_2016_hold_byte_strings_also_through_six(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], imported: str
) -> None:
    (tmp_path / "words.pkl").write_bytes(b"\x80\x02U\x02\xc3\xa9q\x01.")
    run(tmp_path, f"{imported}\nprint cPickle.load(open('{tmp_path}/words.pkl', 'rb')) == '\\xc3\\xa9'\n")
    assert capsys.readouterr().out == "True\n"


def test_the_line_of_an_imported_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("print 'fine'\nx = [\n")
    with pytest.raises(InputError, match=r"beside\.py:\d is not Python"):
        run(tmp_path, "import beside\n")
    (tmp_path / "beside.py").write_text("def f():\n    return 1 / 0\n")
    with pytest.raises(InputError, match=r"beside\.py:2: ZeroDivisionError"):
        run(tmp_path, "import beside\nbeside.f()\n")


def test_a_file_that_is_only_python_3_stays_python_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, "print(7 / 2, end='!\\n', flush=True)\nx: int = 3\nmatch x:\n    case 3:\n        print(f'{x}')\n")
    assert capsys.readouterr().out == "3.5!\n3\n"


def test_packages_and_implicit_relative_imports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("from inner import *\n")
    (tmp_path / "tools" / "inner.py").write_text("import other\ndef f():\n    return other.N / 2\n")
    (tmp_path / "tools" / "other.py").write_text("N = 5\n")
    run(tmp_path, "import tools, tools.inner\nfrom tools import other\nprint tools.f(), tools.inner.f(), other.N\n")
    assert capsys.readouterr().out == "2 2 5\n"


def test_nothing_is_left_in_this_process_or_on_disk(tmp_path: Path) -> None:
    import sys

    (tmp_path / "beside_v1.py").write_text("x = 1\n")
    before, path = set(sys.modules), list(sys.path)
    modules = run(tmp_path, "import beside_v1\nfrom paddle.trainer_config_helpers import *\nimport paddle\n")
    assert {path.name for path in modules.files} == {"case.py", "beside_v1.py"}
    assert not {name for name in set(sys.modules) - before if name.startswith(("paddle", "beside"))}
    assert sys.path == path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside_v1.py", "case.py"]
    with pytest.raises(ImportError):
        import paddle.trainer_config_helpers  # type: ignore[import-not-found]  # noqa: F401


def test_imports_inside_functions_work_after_loading(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        "def f():\n    import cPickle\n    from paddle.trainer_config_helpers import fc_layer\n    return 5 / 2\n"
    )
    assert Modules((tmp_path,)).load("late").f() == 2


def test_a_missing_provider_names_where_it_was_sought(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no missing\.py in .*"):
        Modules((tmp_path,)).load("missing")


def test_decoded_text_survives_pickling() -> None:
    from umiak.paddle_v1.python2.strings import unicode

    back = pickle.loads(pickle.dumps(unicode("é")))
    assert back == "é" and type(back) is unicode


def test_reading_lines_costs_little_more_than_python_3(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(("1\t" + "word " * 80 + "\n") * 20_000)
    source = "def f(name):\n    n = 0\n    for line in open(name):\n"
    source += "        n += len(line.strip().split('\\t')[1].split())\n    return n\n"
    (tmp_path / "reads.py").write_text(source)
    translated = Modules((tmp_path,)).load("reads").f
    native: dict[str, object] = {}
    exec(source, native)

    def seconds(function: object) -> float:
        began = time.process_time()
        assert function(str(tmp_path / "text.txt")) == 1_600_000  # type: ignore[operator]
        return time.process_time() - began

    assert min(seconds(translated) for _ in range(3)) < 2.5 * min(seconds(native["f"]) for _ in range(3))
