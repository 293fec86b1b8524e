import type { IntentLanguage } from '../../contract/intent-languages.ts'
import { parseJsonOutput } from '../runs/verdicts.ts'

type Language = Readonly<{
  title: string
  extension: string
  /** Checks the program without running it. */
  check: string
  run: string
  /** The shipped agent that writes such programs, for a caller that may not generate one. */
  executor: string
  boundaries: readonly string[]
}>

const PYTHON_CHECK =
  'python3 -c "import ast, sys; ast.parse(open(sys.argv[1], encoding=\'utf-8\').read(), sys.argv[1])"'

export const languageRules: Readonly<Record<IntentLanguage, Language>> = {
  python: {
    title: 'Python',
    extension: 'py',
    check: PYTHON_CHECK,
    run: 'python3',
    executor: 'aegis-python-executor-agent',
    boundaries: ['python', 'py', 'python3'],
  },
  javascript: {
    title: 'JavaScript',
    extension: 'js',
    check: 'node --check',
    run: 'node',
    executor: 'aegis-javascript-executor-agent',
    boundaries: ['javascript', 'js', 'node', 'mjs', 'cjs'],
  },
  bash: {
    title: 'Bash',
    extension: 'sh',
    check: 'bash -n',
    run: 'bash',
    executor: 'aegis-bash-executor-agent',
    boundaries: ['bash', 'sh', 'shell'],
  },
}

const FENCE = /^```([\w+-]*)[^\n]*\n([\s\S]*?)^```[ \t]*$/gm

/** The program in an answer: the member `code` of a JSON object, the longest code block of its language, or the only block. */
export function programIn(answer: string, language: IntentLanguage): string | undefined {
  const value = parseJsonOutput(answer)?.value as { code?: unknown } | null | undefined
  if (typeof value === 'object' && value !== null && typeof value.code === 'string') return value.code
  const blocks = [...answer.matchAll(FENCE)].map(([, name, code]) => ({ name: name!.toLowerCase(), code: code! }))
  const { boundaries } = languageRules[language]
  const own = blocks.filter(({ name }) => boundaries.includes(name))
  const chosen = own.length > 0 ? own : blocks.length === 1 ? blocks : []
  return chosen.toSorted((a, b) => b.code.length - a.code.length)[0]?.code
}
