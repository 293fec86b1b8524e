import { AppError } from '../../contract/app-error.ts'
import { type ErrorCode, errorCodes } from '../../contract/error-codes.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { InternalDoor, InvocationResult } from '../../contract/tool-invoker.ts'
import { pause } from '../../kernel/pause.ts'
import type { JsonObject } from './manifest-types.ts'
import type { Visit } from './run-ports.ts'

type Calling = Pick<Visit, 'run' | 'deps' | 'steps'>

/** A tool in the name of whoever started the run. What is only unavailable for the moment is tried again for a while. */
export async function callTool(
  { run, deps, steps }: Calling,
  name: string,
  args: JsonObject,
  door: InternalDoor = 'engine',
): Promise<InvocationResult> {
  // What a manifest names is called with the rights of a user, whoever runs it: its author is somebody else.
  const principal: Principal = door === 'agent' ? { ...run.principal, tier: 'user' } : run.principal
  for (let attempt = 1; ; attempt++) {
    const answer = await deps.invoker.call(principal, name, args, { signal: steps.signal, door })
    const isBusy =
      answer.code !== undefined && ['ERR_BUSY', 'ERR_RATE_LIMITED', 'ERR_STORE_UNAVAILABLE'].includes(answer.code)
    if (!isBusy || attempt >= limits.workflowCallAttemptsMax) return answer
    await pause(Math.min(5_000, 100 * 2 ** attempt), steps.signal)
  }
}

/** The answer of a call that must succeed. */
export async function askTool(calling: Calling, name: string, args: JsonObject): Promise<JsonObject> {
  const answer = await callTool(calling, name, args)
  if (!answer.isError) return answer.value as JsonObject
  throw toError(name, answer)
}

export const toError = (name: string, { code, text }: InvocationResult): AppError =>
  new AppError(knownCode(code), `${name}: ${text}`, { tool: name })

const knownCode = (code: string | undefined): ErrorCode =>
  code !== undefined && Object.hasOwn(errorCodes, code) ? (code as ErrorCode) : 'ERR_COMMAND_FAILED'
