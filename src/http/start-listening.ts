import type { Server } from 'node:http'
import { AppError } from '../contract/app-error.ts'

/** Resolves when connections are accepted; rejects with ERR_INIT_FAILED and the reason. */
export function startListening(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void => {
      const reason =
        error.code === 'EADDRINUSE'
          ? 'another program uses this port; choose another with --port'
          : error.code === 'EACCES'
            ? 'this user may not use this port; choose one above 1023 with --port'
            : `the system says ${error.code ?? error.message}`
      reject(
        new AppError(
          'ERR_INIT_FAILED',
          `Cannot listen on ${host}:${port}: ${reason}.`,
          { host, port },
          { cause: error },
        ),
      )
    }
    server.once('error', onError)
    server.listen(port, host, () => {
      server.off('error', onError)
      resolve()
    })
  })
}
