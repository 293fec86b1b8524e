import type { Config } from './config.ts'

/** The origin of links for a call that does not come over HTTP. */
export const linkOrigin = (config: Config): string =>
  config.public_url === undefined ? listeningOrigin(config) : new URL(config.public_url).origin

/** Where a server with this configuration listens; used for links while the public address is unknown. */
function listeningOrigin({ host, port, tls_cert }: Config): string {
  const name = ['0.0.0.0', '::', '[::]'].includes(host) ? 'localhost' : host
  return `${tls_cert === undefined ? 'http' : 'https'}://${name.includes(':') ? `[${name}]` : name}:${port}`
}

/** Where one-time links of calls lead that did not come over HTTP; `warning` is for the caller. */
export type LinkAddress = Readonly<{ origin: string; warning?: string }>

/** While no server runs in this process: the link is in the store, and a server shows its page. */
export function addressOfLater(config: Config): LinkAddress {
  const origin = linkOrigin(config)
  return {
    origin,
    warning: `The link works only while castellan serve runs at ${origin}; start it there, with the same data directory, before the link expires.`,
  }
}
