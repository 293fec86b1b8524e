import { AppError } from '../../contract/app-error.ts'
import type { ApprovalRequest } from '../../contract/approvals.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import {
  failureOf,
  type InternalTransport,
  type InvocationResult,
  type ToolInvoker,
} from '../../contract/tool-invoker.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { pause } from '../../kernel/pause.ts'
import { type ApprovalAnswer, approvalRequestOf, unapproved } from './approvals.ts'

type Options = Readonly<{
  /** How often a temporarily unavailable tool is called; by default once. */
  attemptsMax?: number
  transport?: InternalTransport
  /** Whether the text of a failure begins with the tool's name. */
  namesTool?: boolean
  /** Asks a person about a call that needs approval; if absent, such a call is refused. */
  askPerson?: (request: ApprovalRequest) => Promise<ApprovalAnswer>
}>

/**
 * Tools on behalf of a principal. `call` returns any answer; `ask` throws a refusal; `askUnless` throws every refusal but the one with
 * that code, for which it returns undefined. `runScript` and `askScript` run a script of this program in a workspace.
 */
export function createToolClient(
  invoker: Pick<ToolInvoker, 'call'>,
  principal: Principal,
  { attemptsMax = 1, transport = 'engine', namesTool = false, askPerson }: Options = {},
) {
  async function call(tool: string, args: Json, signal: AbortSignal, isOwnScript = false): Promise<InvocationResult> {
    let rounds = 0
    for (let attempt = 1; ; attempt++) {
      const waitsForApproval = askPerson !== undefined && rounds < limits.approvalRoundsMax
      const answer = await invoker.call(principal, tool, args, { signal, transport, waitsForApproval, isOwnScript })
      const request = approvalRequestOf(answer)
      if (request !== undefined && waitsForApproval) {
        const { isApproved, text } = await askPerson(request)
        if (!isApproved) return unapproved(request, text)
        rounds++
        attempt--
        continue
      }
      if (attempt >= attemptsMax || !isBusy(answer)) return answer
      await pause(Math.min(5_000, 100 * 2 ** attempt), signal)
    }
  }

  const succeeded = <T>(tool: string, answer: InvocationResult): T => {
    if (!answer.isError) return answer.value as T
    throw namesTool ? namedFailure(tool, answer) : failureOf(answer)
  }
  const runScript = (args: Json, signal: AbortSignal): Promise<InvocationResult> => call('exec', args, signal, true)

  return {
    call: (tool: string, args: Json, signal: AbortSignal): Promise<InvocationResult> => call(tool, args, signal),
    ask: async <T>(tool: string, args: Json, signal: AbortSignal): Promise<T> =>
      succeeded<T>(tool, await call(tool, args, signal)),
    async askUnless<T>(code: ErrorCode, tool: string, args: Json, signal: AbortSignal): Promise<T | undefined> {
      const answer = await call(tool, args, signal)
      return answer.code === code ? undefined : succeeded<T>(tool, answer)
    },
    runScript,
    askScript: async <T>(args: Json, signal: AbortSignal): Promise<T> =>
      succeeded<T>('exec', await runScript(args, signal)),
  }
}
export type ToolClient = ReturnType<typeof createToolClient>

const isBusy = ({ code }: InvocationResult): boolean =>
  code === 'ERR_BUSY' || code === 'ERR_RATE_LIMITED' || code === 'ERR_STORE_UNAVAILABLE'

/** A refusal as an error that names the tool. */
export const namedFailure = (tool: string, { code = 'ERR_INTERNAL', text }: InvocationResult): AppError =>
  new AppError(code, `${tool}: ${text}`, { tool })
