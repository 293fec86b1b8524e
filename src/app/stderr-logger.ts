import type { Terminal } from '../cli/terminal.ts'
import type { Logger } from '../kernel/logger.ts'

const levels = ['debug', 'info', 'warn', 'error'] as const
type Level = (typeof levels)[number]

/** One line per message: level, text, then the fields as JSON. */
export function createStderrLogger(least: Level, terminal: Pick<Terminal, 'error'>): Logger {
  const write = (level: Level) => {
    if (levels.indexOf(level) < levels.indexOf(least)) return () => {}
    return (message: string, fields?: Record<string, unknown>) =>
      terminal.error(`castellan ${level}: ${message}${fields === undefined ? '' : ` ${JSON.stringify(fields)}`}\n`)
  }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
