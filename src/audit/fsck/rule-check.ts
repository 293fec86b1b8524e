import { canonicalText, isMembers, type Members } from './entities.ts'
import type { ReportFinding } from './findings.ts'

/** The tables of rules whose effects have the whole definition. */
export const ruleTables = ['tool_policies', 'usage_limits'] as const
export type RuleTable = (typeof ruleTables)[number]

/** Policies and limits as the log has left them, compared with their tables. */
export type RuleCheck = Readonly<{
  /** False for an effect of another kind. */
  apply(effect: unknown, seq: number, position: number): boolean
  /** The rows have the fields of the effects. */
  compare(table: RuleTable, rows: AsyncIterable<Members>): Promise<void>
}>

type Change = Readonly<{ table: RuleTable; action: 'create' | 'update' | 'delete' }>
const changes: Readonly<Record<string, Change>> = {
  tool_policy_created: { table: 'tool_policies', action: 'create' },
  tool_policy_updated: { table: 'tool_policies', action: 'update' },
  tool_policy_deleted: { table: 'tool_policies', action: 'delete' },
  limit_created: { table: 'usage_limits', action: 'create' },
  limit_updated: { table: 'usage_limits', action: 'update' },
  limit_deleted: { table: 'usage_limits', action: 'delete' },
}

export function createRuleCheck(report: ReportFinding): RuleCheck {
  const logged: Readonly<Record<RuleTable, Map<string, Members>>> = {
    tool_policies: new Map(),
    usage_limits: new Map(),
  }

  function compareRow(table: RuleTable, row: string, actual: Members, expected: Members): void {
    for (const field of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      const [want, have] = [expected[field] ?? null, actual[field] ?? null]
      if (want === have || canonicalText(want) === canonicalText(have)) continue
      report({ table, row, rule: 'row.field', field, expected: want, actual: have })
    }
  }

  return {
    apply(effect, seq, position) {
      if (!isMembers(effect) || typeof effect['kind'] !== 'string' || !Object.hasOwn(changes, effect['kind']))
        return false
      const { table, action } = changes[effect['kind']]!
      const location = { table: 'log_entries', row: String(seq), field: `effects[${position}].body.id` } as const
      const { id, by: _, ...definition } = isMembers(effect['body']) ? effect['body'] : ({} as Members)
      if (typeof id !== 'string') {
        report({ ...location, rule: 'effect.shape', actual: id })
        return true
      }
      const rows = logged[table]
      if (rows.has(id) === (action === 'create')) {
        report({ ...location, rule: action === 'create' ? 'fold.created-twice' : 'fold.unknown-row', actual: id })
        return true
      }
      if (action === 'delete') rows.delete(id)
      else rows.set(id, definition)
      return true
    },
    async compare(table, rows) {
      const missing = new Map(logged[table])
      for await (const { id, ...actual } of rows) {
        const row = String(id)
        const expected = missing.get(row)
        if (expected === undefined || !missing.delete(row)) report({ table, row, rule: 'row.extra' })
        else compareRow(table, row, actual, expected)
      }
      for (const row of missing.keys()) report({ table, row, rule: 'row.missing' })
    },
  }
}
