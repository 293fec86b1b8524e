import { wrappedTable } from '../../cli/fitted-table.ts'
import { type CommandContext, printJson } from './context.ts'

/** A finding of a check. A part belongs to the check before it, and is indented. */
export type Finding = Readonly<{ check: string; status: 'ok' | 'note' | 'bad'; detail: string; isPart?: true }>
export const ok = (check: string, detail: string): Finding => ({ check, status: 'ok', detail })
export const note = (check: string, detail: string): Finding => ({ check, status: 'note', detail })
export const bad = (check: string, detail: string): Finding => ({ check, status: 'bad', detail })
export const partOf = (finding: Finding): Finding => ({ ...finding, isPart: true })

/** Whether none of them is bad. */
export function printFindings(context: CommandContext, findings: readonly Finding[]): boolean {
  const healthy = findings.every((finding) => finding.status !== 'bad')
  if (context.json) {
    printJson(context, { healthy, findings: findings.map(({ isPart: _, ...finding }) => finding) })
    return healthy
  }
  const marks = { ok: 'good', note: 'dim', bad: 'bad' } as const
  const rows = findings.map(({ check, status, detail, isPart }) => [isPart ? `  ${check}` : check, status, detail])
  const text = wrappedTable(rows, context.terminal.width).replace(
    / (ok|note|bad) /g,
    (match, status: 'ok' | 'note' | 'bad') => match.replace(status, context.terminal.style(marks[status], status)),
  )
  context.terminal.out(text)
  return healthy
}
