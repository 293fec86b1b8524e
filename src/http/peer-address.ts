import { isIPv4, type Socket } from 'node:net'
import type { Exposure } from '../tools/runtime/tool-host.ts'

/**
 * The peer of a connection. The address is the socket's own, or the one that a process of ours noted when it handed the
 * connection over; a header never changes it.
 */
export type RelayedPeer = Readonly<{
  /** Address of the client at the process that accepted it; empty if unknown. */
  remoteAddress: string
  /** The port it came through requires keys, whatever this process requires. */
  requireKeys?: boolean
  /** The exposure of callers through that port that do not choose; if absent, this process's. */
  exposure?: Exposure
  /** The process that accepted the client spoke TLS with it. */
  isSecure?: boolean
}>

const relayed = new WeakMap<Socket, RelayedPeer>()

/** Records the real peer of a connection that another local process handed over. Must happen before its first request. */
export function markRelayed(socket: Socket, peer: RelayedPeer): void {
  relayed.set(socket, peer)
}

/** Empty if unknown; an unknown address is never local. */
export const peerAddressOf = (socket: Socket): string =>
  relayed.get(socket)?.remoteAddress ?? socket.remoteAddress ?? ''

export const relayRequiresKeys = (socket: Socket): boolean => relayed.get(socket)?.requireKeys === true
export const isSecureConnection = (socket: Socket): boolean => relayed.get(socket)?.isSecure === true
export const relayExposure = (socket: Socket): Exposure | undefined => relayed.get(socket)?.exposure

const MAPPED_PREFIX = '::ffff:'

/** 127.0.0.0/8, also written as an IPv6 address, and ::1. */
export function isLoopbackAddress(address: string): boolean {
  if (address === '127.0.0.1' || address === '::1') return true
  const plain = address.startsWith(MAPPED_PREFIX) ? address.slice(MAPPED_PREFIX.length) : address
  return plain.startsWith('127.') && isIPv4(plain)
}

/** Whether listening on this host stays on the machine. A name other than `localhost` never counts. */
export const isLoopbackHost = (host: string): boolean =>
  host === 'localhost' || isLoopbackAddress(host.startsWith('[') ? host.slice(1, -1) : host)
