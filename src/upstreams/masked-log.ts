import type { UpstreamSpec } from '../domains/mcp-servers/runtime.ts'
import { createRedactor } from '../kernel/redactor.ts'

/** Tokens of a long connection are renewed repeatedly; lines with older ones are already written. */
const TOKENS_MAX = 4

/**
 * A connection's log lines without its secret values. Tokens are masked from the moment they are first sent, so the connection
 * must use the returned specification.
 */
export function maskedLog(
  spec: UpstreamSpec,
  append: (line: string) => void,
): Readonly<{ spec: UpstreamSpec; log(line: string): void }> {
  const values =
    spec.kind === 'local'
      ? [...Object.values(spec.env), ...Object.values(spec.files)]
      : [...Object.values(spec.headers), ...Object.values(spec.query), ...Object.values(spec.cookies)]
  let tokens: readonly string[] = []
  let redactor = createRedactor(values)
  const log = (line: string): void => append(redactor?.text(line) ?? line)
  if (spec.kind === 'local' || spec.authorization === undefined) return { spec, log }
  const { authorization } = spec
  async function token(): Promise<string> {
    const current = await authorization.token()
    if (tokens.at(-1) !== current) {
      tokens = [...tokens.filter((known) => known !== current), current].slice(-TOKENS_MAX)
      redactor = createRedactor([...values, ...tokens])
    }
    return current
  }
  return { spec: { ...spec, authorization: { ...authorization, token } }, log }
}
