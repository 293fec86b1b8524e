import { closeSync, constants, openSync } from 'node:fs'
import { readdir, unlink } from 'node:fs/promises'
import { Socket } from 'node:net'
import { basename, join } from 'node:path'
import type { Launcher } from './launcher.ts'

/**
 * Named pipes between the supervisor and commands. Node's own pipes to a child are sockets, which a command cannot open
 * again as /dev/stdout; these are real pipes. A few are kept ready, and each is used once.
 */
export type Fifos = Readonly<{
  /** A pipe that we read. `path` is for the command to write; call `opened` when it has. */
  reader(): Promise<Readonly<{ path: string; stream: Socket; opened(): Promise<void> }>>
  /** A pipe that we write. `opened` gives the stream, once the command has its end. */
  writer(): Promise<Readonly<{ path: string; opened(): Promise<Socket>; abandon(): Promise<void> }>>
  /** A pipe of which the client opens the other end by its name; `taken` is to be called when that is done, or given up. */
  lent(): Promise<Readonly<{ path: string; name: string; taken(): Promise<void> }>>
}>

const READY = 8

export async function createFifos(directory: string, launcher: Launcher): Promise<Fifos> {
  for (const name of await readdir(directory)) await unlink(join(directory, name))
  const ready: string[] = []
  let nextNumber = 0
  let refill: Promise<void> | undefined

  const fill = async (): Promise<void> => {
    const paths: string[] = []
    for (let count = ready.length; count < READY; count++) paths.push(join(directory, String(nextNumber++)))
    await launcher.makeFifos(paths)
    ready.push(...paths)
  }
  async function take(): Promise<string> {
    while (ready.length === 0) {
      refill ??= fill().finally(() => {
        refill = undefined
      })
      await refill
    }
    const path = ready.pop()!
    if (ready.length < READY / 2 && refill === undefined) {
      refill = fill().finally(() => {
        refill = undefined
      })
      // The next one who needs it sees the failure.
      refill.catch(() => {})
    }
    return path
  }

  return {
    async reader() {
      const path = await take()
      const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
      return {
        path,
        stream: adopt(fd, { readable: true, writable: false }),
        opened: () => unlink(path),
      }
    },
    async writer() {
      const path = await take()
      // Both ends at once never waits, and lets the command open its end without waiting for ours.
      const both = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
      return {
        path,
        async opened() {
          const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
          closeSync(both)
          await unlink(path)
          return adopt(fd, { readable: false, writable: true })
        },
        async abandon() {
          closeSync(both)
          await unlink(path)
        },
      }
    },
    async lent() {
      const path = await take()
      // Both ends are open here until they are there: so nobody who opens one waits, and nothing that is written is lost.
      const both = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
      return {
        path,
        name: basename(path),
        async taken() {
          closeSync(both)
          await unlink(path)
        },
      }
    },
  }
}

/** A plain descriptor, which the stream owns: a FileHandle would close it a second time when it is collected. */
const adopt = (fd: number, direction: { readable: boolean; writable: boolean }): Socket =>
  new Socket({ fd, ...direction, allowHalfOpen: true })
