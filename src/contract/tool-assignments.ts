import type { CredentialMode } from './upstream-tools.ts'

/**
 * A tool for a gateway or an agent, as callers write it. If both fields say how credentials are found, `credentialResolutionMode`
 * counts.
 */
export type ToolAssignment = Readonly<{
  /** Id of a tool of another server, or a name. */
  toolId: string
  /** The same as the mode `dynamic`. */
  resolveAtCallTime?: boolean | undefined
  credentialResolutionMode?: CredentialMode | undefined
  /** The deployment of the mode `static`. */
  mcpServerId?: string | null | undefined
}>

export type AssignmentFailure = Readonly<{
  status: 'failed'
  code: 'not_found' | 'validation_error'
  /** The rule, in one word, for programs. */
  type: string
  message: string
  toolName?: string | undefined
}>

/**
 * The outcome of one assignment: it is new or has other credentials, it existed already, or it is impossible. `toolName` is the
 * name of a tool of another server, if there is such a tool.
 */
export type AssignmentOutcome =
  | Readonly<{ status: 'succeeded' | 'duplicate'; toolName?: string | undefined }>
  | AssignmentFailure

export const notAssigned = (code: AssignmentFailure['code'], type: string, message: string): AssignmentFailure => ({
  status: 'failed',
  code,
  type,
  message,
})

/** An assigned tool. A tool of this server has its name as its id and no catalogue item. */
export type AssignedTool = Readonly<{ id: string; name: string; description: string | null; catalogId: string | null }>

/** The assignments of one call by outcome, each with the id of its target under the tool's own field name. */
export function bulkAnswer<Field extends string>(
  field: Field,
  outcomes: readonly Readonly<{ targetId: string; toolId: string; outcome: AssignmentOutcome }>[],
) {
  type Row = Readonly<Record<Field, string>> &
    Readonly<{
      toolId: string
      toolName?: string
      error?: string
      errorCode?: AssignmentFailure['code']
      errorType?: string
    }>
  const rows = (status: AssignmentOutcome['status']): Row[] =>
    outcomes
      .filter(({ outcome }) => outcome.status === status)
      .map(({ targetId, toolId, outcome }) => {
        const { toolName = toolId } = outcome
        const row = { [field]: targetId, toolId, ...(toolName === toolId ? {} : { toolName }) }
        if (outcome.status !== 'failed') return row as Row
        return { ...row, error: outcome.message, errorCode: outcome.code, errorType: outcome.type } as Row
      })
  return { succeeded: rows('succeeded'), failed: rows('failed'), duplicates: rows('duplicate') }
}
