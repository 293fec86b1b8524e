import type { Json } from '../kernel/canonical-json.ts'
import { AppError } from './app-error.ts'
import type { Progress, Transport } from './call.ts'
import type { ErrorCode } from './error-codes.ts'
import type { OfferedAgent } from './gateway-directory.ts'
import type { Principal } from './principal.ts'

export type InternalTransport = Extract<Transport, 'agent' | 'engine'>
export type InvocationResult = Readonly<{ isError: boolean; value: Json; text: string; code?: ErrorCode }>
/** A run's output on its way to an address in its manifest. */
export type WebhookDelivery = Readonly<{
  send(): Promise<string>
  /** Whether the run goes on with what the address answers. */
  isRead: boolean
}>
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
 * The tools, for domains whose own work consists of tool calls. Every call takes the usual path: it allows nothing that the
 * principal could not do through another transport, and each call is recorded.
 */
export type ToolInvoker = Readonly<{
  /** Never rejects for an answer of the tool or a refusal by a rule. */
  call(
    principal: Principal,
    name: string,
    args: unknown,
    options: Readonly<{
      signal: AbortSignal
      transport: InternalTransport
      progress?: (update: Progress) => void
      /** Environment variables for commands of the caller, in addition to those of the workspace. */
      environment?: () => Readonly<Record<string, string>>
      /**
       * The caller itself waits for people: a call that needs approval is refused with the request to make, and nothing is
       * stored.
       */
      waitsForApproval?: boolean
      /** The call delegates a task to this agent. The call is judged and recorded; the caller starts the child run itself. */
      delegatesTo?: OfferedAgent
      /**
       * The command is a script of this program, such as one that copies a volume, and not of a manifest or a model: the policies
       * of the organisation do not judge it.
       */
      isOwnScript?: boolean
      /** The call sends to a webhook, once it is allowed. */
      webhook?: WebhookDelivery
    }>,
  ): Promise<InvocationResult>
  /**
   * Why a call would be refused for its arguments or by the principal's contexts; undefined if it would not. Nothing is recorded.
   */
  check(
    principal: Principal,
    name: string,
    args: unknown,
  ): Promise<Readonly<{ code: ErrorCode; message: string }> | undefined>
  /** Loads the tools that the principal has now. Until then `describe` answers from the last load. */
  refresh(principal: Principal): Promise<void>
  /** The tools that the principal may use, limited to `names` if present. */
  describe(principal: Principal, names?: readonly string[]): readonly DescribedTool[]
}>

/** A failed call as an error. `about`, if present, precedes the tool's message. */
export function failureOf({ code = 'ERR_INTERNAL', value }: InvocationResult, about = ''): AppError {
  const { error } = value as { error?: { message?: string; details?: Record<string, unknown> } }
  return new AppError(code, `${about}${error?.message ?? 'The tool failed.'}`, error?.details ?? {})
}
