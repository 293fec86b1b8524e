import { closeSync, constants, fstatSync, openSync } from 'node:fs'
import { Socket } from 'node:net'
import type { CommandPipes } from '../../domains/workspaces/backend.ts'
import { FIFO_FOLDERS, type WirePipes } from '../../supervisor/protocol.ts'

export type SharedPipes = CommandPipes &
  Readonly<{
    /** To be called when the command has ended. Resolves when its output has arrived. */
    end(): Promise<void>
  }>

const { O_RDONLY, O_WRONLY, O_NONBLOCK, O_NOFOLLOW, O_DIRECTORY } = constants
/** A background process of the command may hold the pipe open for ever, so output is complete after this long without data. */
const QUIET_MS = 25

/**
 * Opens the FIFOs of a command that the supervisor has created. Their folders belong to the supervisor, which may have fewer
 * rights than this process: no link in them is followed, and only a FIFO owned by the supervisor is opened.
 */
export function openSharedPipes(state: string, { stdin, stdout }: WirePipes): SharedPipes {
  const { reading, writing } = openBoth(state, stdin, stdout)
  const output = new Socket({ fd: reading, readable: true, writable: false, allowHalfOpen: true })
  const input = new Socket({ fd: writing, readable: false, writable: true, allowHalfOpen: true })
  // A command that ends without reading all of its input has not failed.
  input.on('error', () => input.destroy())
  output.on('error', () => output.destroy())
  const closed = new Promise<void>((resolve) => output.once('end', resolve).once('close', resolve))
  return {
    stdin: input,
    stdout: output,
    async end() {
      input.destroy()
      await Promise.race([closed, quiet(output)])
      output.destroy()
    },
  }
}

function openBoth(state: string, stdin: string, stdout: string): Readonly<{ reading: number; writing: number }> {
  const folder = openFolder(state)
  try {
    const reading = openPipe(folder, stdout, O_RDONLY)
    try {
      return { reading, writing: openPipe(folder, stdin, O_WRONLY) }
    } catch (error) {
      closeSync(reading)
      throw error
    }
  } finally {
    closeSync(folder)
  }
}

/** Each folder is opened relative to its parent. */
function openFolder(state: string): number {
  let folder = openSync(state, O_RDONLY | O_DIRECTORY)
  for (const name of FIFO_FOLDERS) {
    try {
      const inner = openSync(inFolder(folder, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      closeSync(folder)
      folder = inner
    } catch (error) {
      closeSync(folder)
      throw error
    }
  }
  return folder
}

function openPipe(folder: number, name: string, direction: number): number {
  if (!/^\d+$/.test(name)) throw new Error('the supervisor named no pipe')
  const fd = openSync(inFolder(folder, name), direction | O_NONBLOCK | O_NOFOLLOW)
  const pipe = fstatSync(fd)
  if (pipe.isFIFO() && pipe.uid === fstatSync(folder).uid) return fd
  closeSync(fd)
  throw new Error('what the supervisor named is no pipe of its own')
}

const inFolder = (folder: number, name: string): string => `/proc/self/fd/${folder}/${name}`

async function quiet(stream: Socket): Promise<void> {
  for (let before = -1; !stream.destroyed && stream.bytesRead !== before; ) {
    before = stream.bytesRead
    // A turn that was late runs its timers before it reads, so what has arrived is read first.
    await new Promise((resolve) => setTimeout(() => setImmediate(resolve), QUIET_MS))
  }
}
