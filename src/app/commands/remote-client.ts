import type { ClientLines, McpClient } from '../../cli/mcp-client.ts'
import { AppError } from '../../contract/app-error.ts'
import { pause } from '../../kernel/pause.ts'
import type { Environment } from '../config-paths.ts'
import type { RemoteLines } from '../remote/remote-lines.ts'
import { openRemoteServer, type RemoteChoice } from '../remote/remote-server.ts'
import type { ServerAddress } from '../remote/server-address.ts'
import type { ClientState } from './client.ts'

/** All tools by their documented names: a person or a script requests what it knows. A gateway has its own list. */
const viewAt = ({ isGateway }: ServerAddress) => ({ ...(!isGateway && { tools: 'full' }), names: 'documented' })

/** Connects to a remote server as a client, and ends the sessions that it opened. */
export async function withRemoteClient<T>(
  choice: RemoteChoice,
  env: Environment,
  clientOver: (lines: ClientLines) => Promise<McpClient>,
  work: (client: McpClient, state: ClientState) => Promise<T>,
): Promise<T> {
  const server = await openRemoteServer(choice, env)
  const opened: RemoteLines[] = []
  const connect = async (): Promise<McpClient> => {
    const lines = server.openLines(viewAt(server.address), 'person')
    opened.push(lines)
    return await clientOver({ ...lines, close: () => void lines.close() })
  }
  const state: ClientState = {
    connect: () => (opened.length === 0 ? connect() : connectAgain(connect)),
    ownsState: () => false,
  }
  try {
    return await work(await state.connect(), state)
  } finally {
    await Promise.all(opened.map((lines) => lines.close()))
  }
}

const RETRIES = 60
const RETRY_MS = 500

/** A server that just answered is probably being restarted. */
async function connectAgain(connect: () => Promise<McpClient>): Promise<McpClient> {
  for (let left = RETRIES; ; left--) {
    try {
      return await connect()
    } catch (error) {
      const isAway = error instanceof AppError && ['ERR_WEB_FAILED', 'ERR_SHUTTING_DOWN'].includes(error.code)
      if (!isAway || left === 0) throw error
      await pause(RETRY_MS, new AbortController().signal)
    }
  }
}
