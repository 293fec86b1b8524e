import type { Json } from '../kernel/canonical-json.ts'
import type { Progress, Transport } from './call.ts'
import type { ErrorCode } from './error-codes.ts'
import type { OfferedAgent } from './gateway-directory.ts'
import type { Principal } from './principal.ts'

export type InternalTransport = Extract<Transport, 'agent' | 'engine'>
export type InvocationResult = Readonly<{ isError: boolean; value: Json; text: string; code?: ErrorCode }>
export type DescribedTool = Readonly<{
  name: string
  description: string
  toolset: string
  inputSchema: Readonly<Record<string, unknown>>
  skipJudge: boolean
  isReadOnly: boolean
  isIdempotent: boolean
}>

/**
 * The tools, for domains whose own work is made of tool calls. Every call takes the way of all others: nothing is allowed
 * here that the principal could not do through any other transport, and each is recorded.
 */
export type ToolInvoker = Readonly<{
  /** Never rejects for what the tool or a rule answers. */
  call(
    principal: Principal,
    name: string,
    args: unknown,
    options: Readonly<{
      signal: AbortSignal
      transport: InternalTransport
      progress?: (update: Progress) => void
      /** What commands of the caller find in their environment, besides that of the workspace. */
      environment?: () => Readonly<Record<string, string>>
      /** The caller waits for people itself: a call that one must approve is refused with what is to be asked, and nothing is stored. */
      waitsForApproval?: boolean
      /** The tool hands a task on to this agent. The call is judged and recorded; the caller begins the run itself, below its own. */
      delegatesTo?: OfferedAgent
    }>,
  ): Promise<InvocationResult>
  /** Why a call would be refused for its arguments or by the principal's contexts; undefined when it would not. Nothing is recorded. */
  check(
    principal: Principal,
    name: string,
    args: unknown,
  ): Promise<Readonly<{ code: ErrorCode; message: string }> | undefined>
  /** Finds out what there is for the principal now. Until then `describe` knows what it knew before. */
  refresh(principal: Principal): Promise<void>
  /** What the principal may use, of `names` if given. */
  describe(principal: Principal, names?: readonly string[]): readonly DescribedTool[]
}>
