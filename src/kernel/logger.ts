/** Operator-facing log. Implementations write to standard error only: standard output belongs to the protocol. */
export type Logger = Readonly<{
  debug(message: string, fields?: Record<string, unknown>): void
  info(message: string, fields?: Record<string, unknown>): void
  warn(message: string, fields?: Record<string, unknown>): void
  error(message: string, fields?: Record<string, unknown>): void
}>

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} }
