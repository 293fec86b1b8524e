import { hash } from 'node:crypto'

export const sha256Hex = (data: string | Uint8Array): string => hash('sha256', data, 'hex')
export const sha256Bytes = (data: string | Uint8Array): Buffer => hash('sha256', data, 'buffer')
