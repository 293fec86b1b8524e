import { ProtocolError, ProtocolErrorCode, type Server, type ServerContext } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import { MODERN_REVISION } from './server-facts.ts'
import { identityOf } from './session-identity.ts'
import { declaresTasks, type TaskStore, tasksNeeded } from './task-store.ts'

/** The methods of the MCP extension for tasks. They exist in the stateless revision, for clients that declare it. */
const taskParams = z.looseObject({ taskId: z.string() })

export function installTasks(server: Server, store: TaskStore, caller: () => ToolCaller): void {
  function require(method: string, { mcpReq }: ServerContext): string {
    if (server.getNegotiatedProtocolVersion() !== MODERN_REVISION) {
      throw new ProtocolError(ProtocolErrorCode.MethodNotFound, `Method not found: ${method}`)
    }
    if (!declaresTasks(mcpReq.envelope)) throw tasksNeeded()
    return identityOf(caller().principal)
  }
  const known = <T>(found: T | undefined | false): T => {
    if (found !== undefined && found !== false) return found
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'taskId: you have no such task')
  }

  server.setRequestHandler('tasks/get', { params: taskParams }, ({ taskId }, context) =>
    known(store.get(require('tasks/get', context), taskId)),
  )
  server.setRequestHandler('tasks/update', { params: taskParams }, ({ taskId }, context) => {
    const identity = require('tasks/update', context)
    // The SDK takes answers out of the parameters of every request.
    known(store.answer(identity, taskId, context.mcpReq.inputResponses ?? {}))
    return {}
  })
  server.setRequestHandler('tasks/cancel', { params: taskParams }, ({ taskId }, context) => {
    known(store.cancel(require('tasks/cancel', context), taskId))
    return {}
  })
}
