import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readShellLine } from './shell-line.ts'

const commandsOf = (line: string): string[][] => {
  const read = readShellLine(line)
  if ('undecidable' in read) throw new Error(read.undecidable)
  return read.commands.map(({ words }) => words.map(({ text }) => text ?? '<unknown>'))
}

describe('a line that can be read', () => {
  it.each<[string, string[][]]>([
    ['git status', [['git', 'status']]],
    [
      'git status; rm -rf x',
      [
        ['git', 'status'],
        ['rm', '-rf', 'x'],
      ],
    ],
    ['a&&b||c|d&e\nf', [['a'], ['b'], ['c'], ['d'], ['e'], ['f']]],
    ['(cd x && make) ; ls', [['cd', 'x'], ['make'], ['ls']]],
    [`g'i't "st\\"at"us`, [['git', 'st"atus']]],
    ['g\\it a\\\nb', [['git', 'ab']]],
    ['make 2>&1 >out.txt <in all', [['make', 'all']]],
    ['>out make', [['make']]],
    ['echo "2">x', [['echo', '2']]],
    ['echo 2 >x', [['echo', '2']]],
    ['echo a#b # rm\nls', [['echo', 'a#b'], ['ls']]],
    ['ls *.ts "$HOME" ~/x', [['ls', '<unknown>', '<unknown>', '<unknown>']]],
    ["printf '$(rm)' '`'", [['printf', '$(rm)', '`']]],
    ['$GIT status', [['<unknown>', 'status']]],
    ['git$IFS status', [['<unknown>', 'status']]],
    ['/bin/r? x', [['<unknown>', 'x']]],
    ['{git,rm} x', [['<unknown>', 'x']]],
    ['git "$\\\nHOME" "$[1+1]"', [['git', '<unknown>', '<unknown>']]],
    ['"if" x', [['if', 'x']]],
    ['cat <a >>b <>c 3>&-', [['cat']]],
    ['git status &>x', [['git', 'status']]],
  ])('%s', (line, commands) => {
    expect(commandsOf(line)).toEqual(commands)
  })
})

describe('what a shell opens', () => {
  it.each<[string, string[]]>([
    ['echo a > x', ['write x']],
    ['echo a >> "x y"', ['write x y']],
    ['echo a >| x', ['write x']],
    ['echo a 2> e > o', ['write e', 'write o']],
    ['cat < in', ['read in']],
    ['cat <> both', ['write both']],
    ['echo a &> x', ['write x']],
    ['echo a >& x', ['write x']],
    ['echo a 2>&1 >&2 3>&- <&0', []],
    ['echo a > $x', ['write <unknown>']],
    ['echo a > ~/x', ['write <unknown>']],
    ['echo a > x*', ['write <unknown>']],
    ["echo a > ''", ['write <unknown>']],
    ['(echo a; echo b) > x', ['write x']],
    ['>x echo a | cat <y', ['write x', 'read y']],
    ["echo '> no' \\> no", []],
  ])('%s', (line, expected) => {
    const read = readShellLine(line)
    if ('undecidable' in read) throw new Error(read.undecidable)
    expect(read.redirections.map(({ access, path }) => `${access} ${path ?? '<unknown>'}`)).toEqual(expected)
  })
})

describe('a line that nobody can decide', () => {
  it.each([
    'git $(rm x)',
    'git `rm x`',
    'git "$(rm x)"',
    'git "`rm x`"',
    'git "$\\\n(rm x)"',
    'git $\\\n\\\n(rm x)',
    'git "$\\\n{x:-a}"',
    "git $\\\n'a'",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a line for a shell
    'git ${x:-$(rm)}',
    'git $((1+1))',
    "git $'a\\'; rm'",
    'cat <<EOF\n$(rm)\nEOF',
    'cat <<<x',
    'cat <(rm x)',
    'cat >(rm x)',
    'PATH=/tmp git status',
    'GIT_SSH_COMMAND=rm git fetch',
    'X=1',
    'PA\\\nTH=/tmp git',
    'f() { rm x; }; f',
    'a=(1 2)',
    'if true; then rm x; fi',
    'while :; do rm; done',
    'for x in a; do rm; done',
    'case x in x) rm;; esac',
    '{ rm x; }',
    '! rm x',
    'time rm x',
    'ti\\\nme rm x',
    '[[ a ]]',
    'function f { rm; }',
    'git "status',
    "git 'status",
    'git \\',
    'git >',
    'git > ; rm',
    '(git',
    'git)',
    '',
    '# nothing',
  ])('%j', (line) => {
    expect(readShellLine(line)).toHaveProperty('undecidable')
  })
})

const shells = ['sh', 'bash'].filter((shell) => spawnSync(shell, ['-c', ':']).status === 0)

describe.each(shells)('%s', (shell) => {
  /** Every command is a program that says its own name and words, so what really runs can be seen. */
  const run = (line: string): string[] => {
    const names = ['a', 'b', 'c']
    const functions = names.map((name) => `${name}() { printf '%s\\037' ${name} "$@"; printf '\\036'; }`).join('\n')
    const { stdout } = spawnSync(shell, ['-c', `${functions}\n${line}`], { encoding: 'utf8', cwd: '/dev' })
    return stdout.split('\u001e').filter((one) => one !== '')
  }
  const word = fc.string({
    unit: fc.constantFrom('a', 'b', ' ', "'", '"', '\\', '$', '*', ';', '#', '>', '&'),
    maxLength: 6,
  })
  const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

  it('runs what was read, with the words that were read', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.array(word, { maxLength: 3 })), {
          minLength: 1,
          maxLength: 3,
        }),
        fc.constantFrom(' ; ', ' && ', '\n', ';'),
        (commands, joint) => {
          const line = commands.map(([name, words]) => [name, ...words.map(quote)].join(' ')).join(joint)
          const expected = commands.map(([name, words]) => [name, ...words])
          expect(commandsOf(line)).toEqual(expected)
          expect(run(line)).toEqual(expected.map((words) => words.map((one) => `${one}\u001f`).join('')))
        },
      ),
      { numRuns: 60 },
    )
  })

  it('runs nothing that was not read, whatever the line', () => {
    const piece = fc.constantFrom(
      'a',
      'b',
      'c',
      ' ',
      ' ',
      ';',
      '&&',
      '|',
      '\n',
      "'",
      '"',
      '\\',
      '$',
      '(',
      ')',
      '>',
      '2',
      '#',
      '{',
      '}',
      '`',
      '=',
      '!',
      '\\\n',
      '"$\\\n(c)"',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 10 }), (pieces) => {
        const read = readShellLine(pieces.join(''))
        if ('undecidable' in read) return
        const known = read.commands.map(({ words }) => words[0]?.text)
        const ran = run(pieces.join('').replaceAll(/>\|?/g, '>/dev/null ')).map((one) => one.split('\u001f')[0]!)
        // A word that is not known may be anything, and an allowlist refuses it.
        if (!known.includes(undefined)) expect(known).toEqual(expect.arrayContaining(ran))
      }),
      { numRuns: 150 },
    )
  })
})
