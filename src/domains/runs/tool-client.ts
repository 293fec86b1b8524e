import { AppError } from '../../contract/app-error.ts'
import type { ApprovalRequest } from '../../contract/approvals.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { InternalTransport, InvocationResult, ToolInvoker } from '../../contract/tool-invoker.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { pause } from '../../kernel/pause.ts'
import { type ApprovalAnswer, askedBy, unapproved } from './approvals.ts'

type Options = Readonly<{
  /** How often a tool that is only unavailable for the moment is called; once if absent. */
  attemptsMax?: number
  transport?: InternalTransport
  /** Whether a failure begins with the name of the tool. */
  namesTool?: boolean
  /** Asks a person for a call that needs one; without it such a call is refused. */
  askPerson?: (asked: ApprovalRequest) => Promise<ApprovalAnswer>
}>

/** Tools in the name of a principal. `call` answers whatever the tool does; `ask` throws what it refuses. */
export function createToolClient(
  invoker: Pick<ToolInvoker, 'call'>,
  principal: Principal,
  { attemptsMax = 1, transport = 'engine', namesTool = false, askPerson }: Options = {},
) {
  async function call(tool: string, args: Json, signal: AbortSignal): Promise<InvocationResult> {
    let rounds = 0
    for (let attempt = 1; ; attempt++) {
      const waitsForApproval = askPerson !== undefined && rounds < limits.approvalRoundsMax
      const answer = await invoker.call(principal, tool, args, { signal, transport, waitsForApproval })
      const asked = askedBy(answer)
      if (asked !== undefined && waitsForApproval) {
        const { isApproved, text } = await askPerson(asked)
        if (!isApproved) return unapproved(asked, text)
        rounds++
        attempt--
        continue
      }
      if (attempt >= attemptsMax || !isBusy(answer)) return answer
      await pause(Math.min(5_000, 100 * 2 ** attempt), signal)
    }
  }

  async function ask<T>(tool: string, args: Json, signal: AbortSignal): Promise<T> {
    const answer = await call(tool, args, signal)
    if (answer.isError) throw failureOf(answer, namesTool ? tool : undefined)
    return answer.value as T
  }

  return { call, ask }
}
export type ToolClient = ReturnType<typeof createToolClient>

const isBusy = ({ code }: InvocationResult): boolean =>
  code === 'ERR_BUSY' || code === 'ERR_RATE_LIMITED' || code === 'ERR_STORE_UNAVAILABLE'

/** What a tool refused, as an error; with `tool` it says which one. */
export function failureOf({ code = 'ERR_INTERNAL', value, text }: InvocationResult, tool?: string): AppError {
  if (tool !== undefined) return new AppError(code, `${tool}: ${text}`, { tool })
  const { error } = value as { error?: { message?: string; details?: Record<string, unknown> } }
  return new AppError(code, error?.message ?? 'The tool failed.', error?.details ?? {})
}
