import { expect, it } from 'vitest'
import { connectMcpClient } from './mcp-client.ts'

it('says which call the end of the connection left in doubt, and that a later one was not begun', async () => {
  let receive: (line: string) => void = () => {}
  let end: () => void = () => {}
  const client = await connectMcpClient({
    version: '0',
    lines: {
      onLine: (handler) => {
        receive = handler
      },
      onClose: (handler) => {
        end = handler
      },
      send: (line) => {
        const { id, method } = JSON.parse(line) as { id?: number; method: string }
        if (method === 'initialize') queueMicrotask(() => receive(JSON.stringify({ jsonrpc: '2.0', id, result: {} })))
        if (method === 'tools/call') queueMicrotask(() => end())
      },
      close: () => {},
    },
  })
  await expect(client.callTool('task_create', {})).rejects.toMatchObject({
    code: 'ERR_OWNER_LOST',
    message:
      'The process that owned the state ended while task_create was in progress; it may or may not have taken effect. Check, then call again.',
  })
  await expect(client.callTool('task_create', {})).rejects.toMatchObject({
    code: 'ERR_OWNER_LOST',
    message: 'The process that owned the state has ended, and task_create was not started. Call again.',
  })
})
