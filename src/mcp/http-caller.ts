import type { Principal } from '../contract/principal.ts'
import type { RequestHead } from '../http/exchange/request-head.ts'
import type { Exposure, ToolCaller } from '../tools/runtime/tool-host.ts'
import { type RequestedSpelling, spellingFor, traitsOf } from './client-names.ts'

/** The sender of a request, as the HTTP server authenticated it. */
export type HttpCaller = RequestedSpelling &
  Readonly<{
    principal: Principal
    /** The requested exposure; read from `?tools=` if absent. */
    exposure?: Exposure
    /** The address under which the client knows the server, if that is not plain HTTP at the Host it sent. */
    origin?: string
  }>

export type ResolvedCaller = HttpCaller & Readonly<{ exposure: Exposure }>

/** The address under which the client knows the server. */
export const originOf = ({ headers }: RequestHead, { origin }: HttpCaller): string | undefined =>
  origin ?? (headers.host === undefined ? undefined : `http://${headers.host}`)

export function toolCaller(req: RequestHead, caller: ResolvedCaller, clientName: string | undefined): ToolCaller {
  const traits = traitsOf(clientName)
  const origin = originOf(req, caller)
  return {
    ...(origin !== undefined && { origin }),
    principal: caller.principal,
    transport: 'http',
    exposure: caller.exposure,
    ...spellingFor(traits, caller),
    addedArguments: traits.addedArguments,
  }
}
