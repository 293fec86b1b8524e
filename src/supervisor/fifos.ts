import { closeSync, constants, openSync } from 'node:fs'
import { readdir, unlink } from 'node:fs/promises'
import { Socket } from 'node:net'
import { basename, join } from 'node:path'
import type { Launcher } from './launcher.ts'

/**
 * FIFOs between the supervisor and commands. Node connects a child by sockets, which the child cannot reopen as /dev/stdout; a
 * FIFO can be reopened. A few are created ahead, and each is used once.
 */
export type Fifos = Readonly<{
  /** A FIFO that the supervisor reads. The command writes to `path`; call `opened` once the command has opened it. */
  reader(): Promise<Readonly<{ path: string; stream: Socket; opened(): Promise<void> }>>
  /** A FIFO that the supervisor writes. `opened` returns the stream once the command has opened its end. */
  writer(): Promise<Readonly<{ path: string; opened(): Promise<Socket>; abandon(): Promise<void> }>>
  /** A FIFO whose other end the client opens by `name`. Call `taken` once the client has done so, or has given up. */
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
      // A failure reaches the next caller that needs a FIFO.
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
      // O_RDWR never blocks on a FIFO, and lets the command open its end without waiting for the supervisor.
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
      // Both ends stay open here until the client and the command have opened theirs. So neither blocks, and nothing written is
      // lost.
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

/** Takes a plain descriptor, which the stream owns: a FileHandle would close it a second time when it is garbage-collected. */
const adopt = (fd: number, direction: { readable: boolean; writable: boolean }): Socket =>
  new Socket({ fd, ...direction, allowHalfOpen: true })
