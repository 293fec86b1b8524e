import { counted } from '../kernel/counted.ts'
import type { ImportedServer, ImportProblem, ImportResult } from './import-config.ts'

/**
 * The displayed part of an import. Values of variables and headers are never shown, nor anything that looks like a secret in
 * arguments and addresses; references to a secret (`${NAME}`, `env:NAME`) are.
 */
const HIDDEN = '[redacted]'
const REFERENCE = /^(?:\$\{[^}]*\}|\$[A-Za-z_]\w*|env:\w+)$/
const SECRET_NAME =
  /token|secret|passw|passphrase|api[-_]?key|access[-_]?key|private[-_]?key|auth|credential|bearer|cookie/i
const SECRET_SHAPE =
  /\b(?:sk-|rk_|gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|npm_|hf_|cst_|AKIA|AIza|eyJ)[A-Za-z0-9_.-]{8,}|\b(?:Bearer|Basic)\s+\S+/g
export const isSecretName = (name: string): boolean => SECRET_NAME.test(name)
/** Whether a text has the form of a token of a known service. */
export const hasSecretShape = (text: string): boolean => text.search(SECRET_SHAPE) !== -1
const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i

export function redactServer(server: ImportedServer): ImportedServer {
  return server.transport === 'stdio'
    ? { ...server, args: redactArgs(server.args), env: redactValues(server.env) }
    : { ...server, url: redactUrl(server.url), headers: redactValues(server.headers) }
}

const redactValue = (value: string): string => (value === '' || REFERENCE.test(value) ? value : HIDDEN)

const redactValues = (values: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, redactValue(value)]))

function redactArgs(args: readonly string[]): string[] {
  return args.map((arg, index) => {
    const before = args[index - 1]
    const isValueOfSecretFlag = before !== undefined && /^--?[\w-]+$/.test(before) && SECRET_NAME.test(before)
    return isValueOfSecretFlag && !arg.startsWith('-') ? redactValue(arg) : redactArg(arg)
  })
}

function redactArg(arg: string): string {
  if (ADDRESS.test(arg)) return redactUrl(arg)
  const assignment = /^([^=:\s]+)(=|:\s*)(.+)$/s.exec(arg)
  if (assignment !== null) {
    const [, name, sign, value] = assignment
    if (SECRET_NAME.test(name!)) return `${name}${sign}${redactValue(value!)}`
    if (ADDRESS.test(value!)) return `${name}${sign}${redactUrl(value!)}`
  }
  return arg.replace(SECRET_SHAPE, HIDDEN)
}

/** Some services put the secret into the path: a long segment of mixed letters and digits counts as one. */
function redactUrl(text: string): string {
  const url = URL.parse(text)
  if (url === null) return text.replace(SECRET_SHAPE, HIDDEN)
  const user = url.username === '' && url.password === '' ? '' : `${HIDDEN}@`
  const path = url.pathname
    .split('/')
    .map((segment) => (/^(?=.*\d)(?=.*[A-Za-z])[\w~.%=-]{20,}$/.test(segment) ? HIDDEN : segment))
    .join('/')
  const query = [...url.searchParams].map(([name, value]) => `${name}=${redactValue(value)}`).join('&')
  return `${url.protocol}//${user}${url.host}${path}${query === '' ? '' : `?${query}`}${url.hash === '' ? '' : `#${HIDDEN}`}`
}

/** For `--json`. */
export const importReport = ({ servers, problems }: ImportResult): ImportResult => ({
  servers: servers.map(redactServer),
  problems,
})

/** For a person, one server a line. Nothing from the file reaches the terminal as a control character. */
export function importReportText(result: ImportResult): string {
  const { servers, problems } = importReport(result)
  const width = Math.max(0, ...servers.map(({ name }) => name.length))
  const lines = [
    counted(servers.length, 'server'),
    ...servers.map((server) => `  ${server.name.padEnd(width)}  ${describe(server)}`),
  ]
  return `${linesOf(lines)}${importProblemsText(problems)}`
}

/** Empty if there are none. */
export const importProblemsText = (problems: readonly ImportProblem[]): string =>
  problems.length === 0 ? '' : linesOf([counted(problems.length, 'problem'), ...problems.map(describeProblem)])

const linesOf = (lines: readonly string[]): string => lines.map((line) => `${printable(line)}\n`).join('')

function describe(server: ImportedServer): string {
  const [line, named] =
    server.transport === 'stdio'
      ? [[server.command, ...server.args].map(quoted).join(' '), server.env]
      : [server.url, server.headers]
  const values = Object.entries(named).map(([name, value]) => `${name}=${value}`)
  const word = server.transport === 'stdio' ? 'env' : 'headers'
  return [
    server.transport.padEnd(5),
    line,
    ...(values.length === 0 ? [] : [`(${word}: ${values.join(', ')})`]),
    ...(server.enabled ? [] : ['(disabled)']),
  ].join('  ')
}

const describeProblem = ({ path, severity, message }: ImportProblem): string =>
  `  ${severity.padEnd(5)}  ${path}: ${message}`
const quoted = (arg: string): string => (/^[\w@%+=:,./[\]-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`)
const printable = (line: string): string =>
  line.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (char) => `\\u${char.codePointAt(0)!.toString(16).padStart(4, '0')}`)
