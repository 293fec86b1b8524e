import {
  type JSONRPCRequest,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { refusedParams } from './params-problem.ts'

type Handler = (request: JSONRPCRequest, context: ServerContext) => Promise<Result>

/** The SDK answers a request that does not fit its schema as if it had failed itself. It is the caller's fault, and names the field. */
export class CheckedServer extends Server {
  protected override _wrapHandler(method: string, handler: Handler): Handler {
    return super._wrapHandler(method, async (request, context) => {
      try {
        return await handler(request, context)
      } catch (error) {
        const problem = refusedParams(request, error)
        throw problem === undefined ? error : new ProtocolError(ProtocolErrorCode.InvalidParams, problem)
      }
    })
  }
}
