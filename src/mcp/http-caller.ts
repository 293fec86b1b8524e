import type { IncomingMessage } from 'node:http'
import type { Principal } from '../contract/principal.ts'
import type { Exposure, ToolCaller } from '../tools/runtime/tool-host.ts'
import { type AskedSpelling, spellingFor, traitsOf } from './client-names.ts'

/** Who sent a request, as the HTTP server found out. */
export type HttpCaller = AskedSpelling &
  Readonly<{
    principal: Principal
    /** What the address asked to see; read from `?tools=` when absent. */
    exposure?: Exposure
    /** Under which address the client knows the server, where that is not plain HTTP at the Host it sent. */
    origin?: string
  }>

export type ResolvedCaller = HttpCaller & Readonly<{ exposure: Exposure }>

/** The address under which the client knows the server. */
export const originOf = ({ headers }: IncomingMessage, { origin }: HttpCaller): string | undefined =>
  origin ?? (headers.host === undefined ? undefined : `http://${headers.host}`)

export function toolCaller(req: IncomingMessage, caller: ResolvedCaller, clientName: string | undefined): ToolCaller {
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
