import type { Duplex } from 'node:stream'
import type { ErrorCode } from '../contract/error-codes.ts'
import type {
  BackendInventory,
  FileInfo,
  ImageInfo,
  JobCursor,
  JobRequest,
  JobSummary,
  LimitName,
  NetworkSpec,
  RefusedConnection,
  Resources,
  WorkspaceSpec,
  WorkspaceUsage,
} from '../domains/workspaces/backend.ts'
import type { EgressCredential } from './egress/egress-policy.ts'
import type { NetworkCapabilities } from './network/network-hub.ts'

/**
 * The protocol between the server and the supervisor, with one connection for each request. The client sends one line of JSON; if
 * the operation takes content, chunks follow: a 32-bit length and that many bytes, where length 0 ends the content. The
 * supervisor answers with frames: a type byte, a 32-bit length and a payload. The last frame is a result or an error. Closing the
 * connection earlier cancels the request, and truncated content is never treated as complete.
 */
export const PROTOCOL_VERSION = 6
export const SOCKET_NAME = 'supervisor.sock'
/** The path of the commands' FIFOs below the state directory of the back end. */
export const FIFO_FOLDERS = ['run', 'fifos'] as const
export const requestLineBytesMax = 8 * 1024 * 1024
const FRAME_HEADER_BYTES = 5
const CHUNK_HEADER_BYTES = 4

export type FrameType = 'result' | 'error' | 'stdout' | 'stderr' | 'data'
const frameBytes: Record<FrameType, number> = { result: 0x72, error: 0x65, stdout: 0x31, stderr: 0x32, data: 0x64 }
const frameTypes = new Map(Object.entries(frameBytes).map(([type, byte]) => [byte, type as FrameType]))

export type WireExec = Readonly<{
  id: string
  argv: readonly string[]
  workdir: string
  env: Readonly<Record<string, string>>
  timeoutMs: number
  outputBytesMax: number
  /** The content of the request is the command's standard input. */
  hasStdin: boolean
  /** All output is sent as it arrives. Otherwise its head and tail are sent at the end. */
  streams: boolean
  /**
   * The client opens the other ends of the command's standard input and output. One data frame carries their names, and the
   * client ends the content of its request once it has opened them.
   */
  lends: boolean
}>
export type WirePipes = Readonly<{ stdin: string; stdout: string }>
export type WireExecResult = Readonly<{
  exitCode: number | null
  signal: string | null
  /** Bytes missing between the head and the tail. */
  omitted: Readonly<{ stdout: number; stderr: number }>
  durationMs: number
  ended: 'exit' | 'timeout' | 'cancelled'
  limitsHit: readonly LimitName[]
}>
export type SupervisorFacts = Readonly<{
  protocol: number
  version: string
  store: 'btrfs' | 'plain'
  /** How many user ids a workspace has. */
  ids: number
  cgroups: readonly string[]
  /** Why workspaces share user ids; null if they do not. */
  sharedIdsBecause: string | null
  running: number
}>

/** `resolver` is null for the host's resolver. `authorities` are additional certificates in PEM. */
type OperatorSettings = Readonly<{
  hostAddresses: readonly string[]
  credentials: readonly EgressCredential[]
  resolver: string | null
  authorities: string
}>

/** `within` restricts the paths of a workspace: each list must allow a path. Null allows any path. */
export type Bounded = Readonly<{ id: string; within: readonly (readonly string[])[] | null }>

/** Every operation with its parameters and its result. */
export type Operations = {
  /** Every version must understand this operation: `protocol`, `version` and `running` are always in the result. */
  hello: { params: Readonly<{ bootId: string }>; result: SupervisorFacts }
  /** Stays open for as long as the server lives, so the supervisor knows which servers are connected. */
  attend: { params: Readonly<{ bootId: string }>; result: Record<string, never> }
  create: { params: Omit<WorkspaceSpec, 'ip'>; result: Readonly<{ ip: string }> }
  start: { params: WorkspaceSpec; result: Record<string, never> }
  stop: { params: Readonly<{ id: string; graceMs: number }>; result: Record<string, never> }
  destroy: { params: Readonly<{ id: string }>; result: Record<string, never> }
  inventory: { params: Record<string, never>; result: BackendInventory }
  isRunning: { params: Readonly<{ id: string }>; result: Readonly<{ running: boolean }> }
  exec: { params: WireExec; result: WireExecResult }
  jobStart: { params: Readonly<{ id: string; job: JobRequest }>; result: Readonly<{ jobId: number }> }
  jobPoll: {
    params: Readonly<{ id: string; jobId: number; from: JobCursor; bytesMax: number }>
    result: Readonly<{
      summary: JobSummary | null
      stdout: string
      stderr: string
      next: JobCursor
      skipped: JobCursor
    }>
  }
  jobKill: { params: Readonly<{ id: string; jobId: number; signal: number }>; result: Readonly<{ found: boolean }> }
  jobRemove: { params: Readonly<{ id: string; jobId: number }>; result: Readonly<{ found: boolean }> }
  jobList: { params: Readonly<{ id: string }>; result: readonly JobSummary[] }
  snapshot: { params: Readonly<{ id: string; layerId: string }>; result: Readonly<{ bytes: number }> }
  reset: { params: WorkspaceSpec; result: Record<string, never> }
  removeLayer: { params: Readonly<{ layerId: string }>; result: Record<string, never> }
  setNetwork: { params: Readonly<{ id: string; network: NetworkSpec }>; result: Record<string, never> }
  resize: { params: Readonly<{ id: string; resources: Resources }>; result: Record<string, never> }
  reserveHostPort: {
    params: Readonly<{ wanted: number | null; range: Readonly<{ first: number; last: number }> }>
    result: Readonly<{ port: number | null }>
  }
  /** What the server knows of the host and of its operator's settings. Sent at each start of the server. */
  configure: {
    params: OperatorSettings
    result: Record<string, never>
  }
  /** Sent when the host's addresses have changed. */
  hostAddresses: { params: Readonly<{ addresses: readonly string[] }>; result: Record<string, never> }
  probeNetwork: { params: Record<string, never>; result: NetworkCapabilities }
  usage: { params: Readonly<{ id: string }>; result: WorkspaceUsage }
  refused: { params: Readonly<{ id: string }>; result: readonly RefusedConnection[] }
  logs: { params: Readonly<{ id: string; lines: number }>; result: Readonly<{ console: string; stderr: string }> }
  images: { params: Record<string, never>; result: readonly ImageInfo[] }
  removeImage: { params: Readonly<{ name: string }>; result: Record<string, never> }
  fileStat: { params: Bounded & Readonly<{ path: string }>; result: FileInfo }
  fileList: {
    params: Bounded & Readonly<{ path: string; limit: number }>
    result: Readonly<{ entries: readonly FileInfo[]; truncated: boolean }>
  }
  /** Data frames with the content. The first one carries the size, as JSON. */
  fileRead: {
    params: Bounded & Readonly<{ path: string; offset: number; length: number | null }>
    result: Record<string, never>
  }
  fileWrite: {
    params: Bounded & Readonly<{ path: string; mode: number | null }>
    result: Readonly<{ bytes: number }>
  }
  fileRemove: { params: Bounded & Readonly<{ path: string; recursive: boolean }>; result: Record<string, never> }
  fileMakeDirectory: { params: Bounded & Readonly<{ path: string }>; result: Record<string, never> }
  fileRename: { params: Bounded & Readonly<{ from: string; to: string }>; result: Record<string, never> }
  /** Exits the supervisor, which kills every process in every workspace. Every version must understand it. */
  shutdown: { params: Record<string, never>; result: Record<string, never> }
  /** The same, unless a workspace runs or a server other than the one with this `bootId` is connected. */
  shutdownIfIdle: { params: Readonly<{ bootId: string }>; result: Readonly<{ ending: boolean }> }
}
export type OperationName = keyof Operations
/** `takes` holds the parameters. Supervisors of other versions must understand the first request, so the name stays. */
export type RequestLine = Readonly<{ operation: OperationName; takes: unknown }>
export type WireError = Readonly<{ code: ErrorCode; message: string; details: Readonly<Record<string, unknown>> }>

export function encodeFrame(type: FrameType, payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payload.length)
  frame[0] = frameBytes[type]
  frame.writeUInt32BE(payload.length, 1)
  frame.set(payload, FRAME_HEADER_BYTES)
  return frame
}

export function encodeChunk(bytes: Uint8Array): Buffer {
  const chunk = Buffer.allocUnsafe(CHUNK_HEADER_BYTES + bytes.length)
  chunk.writeUInt32BE(bytes.length)
  chunk.set(bytes, CHUNK_HEADER_BYTES)
  return chunk
}
export const endChunk: Uint8Array = new Uint8Array(CHUNK_HEADER_BYTES)

/** Parses chunks as they arrive. `onEnd` is called once, for the chunk of length 0. */
export function createChunkReader(onContent: (bytes: Buffer) => void, onEnd: () => void): (received: Buffer) => void {
  let header: Buffer = Buffer.alloc(0)
  let remaining = 0
  return (received) => {
    let at = 0
    while (at < received.length) {
      if (remaining > 0) {
        const part = received.subarray(at, at + remaining)
        onContent(part)
        remaining -= part.length
        at += part.length
        continue
      }
      const missing = CHUNK_HEADER_BYTES - header.length
      header = Buffer.concat([header, received.subarray(at, at + missing)])
      at += missing
      if (header.length < CHUNK_HEADER_BYTES) return
      remaining = header.readUInt32BE()
      header = Buffer.alloc(0)
      if (remaining === 0) onEnd()
    }
  }
}

/** The frames of a connection, in order, until it closes. Throws on a malformed frame. */
export async function* readFrames(connection: Duplex): AsyncGenerator<Readonly<{ type: FrameType; payload: Buffer }>> {
  let held: Buffer = Buffer.alloc(0)
  for await (const chunk of connection as AsyncIterable<Buffer>) {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    while (held.length >= FRAME_HEADER_BYTES) {
      const length = held.readUInt32BE(1)
      if (held.length < FRAME_HEADER_BYTES + length) break
      const type = frameTypes.get(held[0]!)
      if (type === undefined) throw new Error('The supervisor sent a frame of an unknown type')
      const payload = held.subarray(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + length)
      held = held.subarray(FRAME_HEADER_BYTES + length)
      yield { type, payload }
    }
  }
}
