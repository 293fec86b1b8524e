import type { IncomingMessage } from 'node:http'

/** A request without its body: what checks, authentication and routing read of it. */
export type RequestHead = Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders' | 'socket'>
