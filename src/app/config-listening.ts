import { z } from 'zod'
import { isAddressRange } from '../http/request-client.ts'
import { flag, rule, wholeNumber } from './config-parts.ts'

const hostRule = rule('a list of host names or addresses, each with or without a port; there are no wildcards')
const HOST = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9]([a-z0-9._-]{0,252}[a-z0-9])?)(:[0-9]{1,5})?$/i
const originRule = rule('a list of origins such as https://console.example; there are no wildcards, and no null')
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*,]+\/?$/i
const publicUrlRule = rule(
  'the scheme, name and port of this server, such as https://castellan.example, without a path',
)
const PUBLIC_URL = /^https?:\/\/[^\s/?#@*,]+\/?$/i
const proxyRule = rule('a list of at most 64 IP addresses and networks such as 10.0.0.0/8')

/** Where `serve` listens, and its public address. */
export const listeningFields = {
  host: z
    .string(rule('a host name or address'))
    .min(1, rule('a host name or address'))
    .default('127.0.0.1')
    .describe('Address that `serve` listens on. An address other than a loopback address requires API keys.'),
  port: wholeNumber(7433, 0, 65_535, 'TCP port that `serve` listens on. 0 chooses a free port.'),
  require_keys: flag(
    false,
    'Whether every caller needs an API key over HTTP, even on a loopback address. Otherwise a caller on this machine is the local owner.',
  ),
  allow_plain_http: flag(
    false,
    'Whether people may sign in over plain HTTP at an address that is not a loopback address. Others can then read their passwords in transit.',
  ),
  tls_cert: z
    .string(rule('the path of a file'))
    .min(1, rule('the path of a file'))
    .optional()
    .describe(
      'PEM file of the certificate of `serve`, with its chain. With `tls_key`, `serve` speaks TLS. A changed file is read again.',
    ),
  tls_key: z
    .string(rule('the path of a file'))
    .min(1, rule('the path of a file'))
    .optional()
    .describe('PEM file of the private key of `tls_cert`, without a passphrase.'),
  public_url: z
    .string(publicUrlRule)
    .regex(PUBLIC_URL, publicUrlRule)
    .refine((text) => URL.canParse(text), publicUrlRule)
    .optional()
    .describe(
      'Address that clients use for this server, such as `https://castellan.example`. Links and metadata contain it. Default: the address that the client connects to. If it is not a loopback address, every caller needs a key over HTTP.',
    ),
  trusted_proxies: z
    .array(z.string(proxyRule).refine(isAddressRange, proxyRule), proxyRule)
    .max(64, proxyRule)
    .default([])
    .describe(
      'Addresses and networks of proxies in front of this server, such as `10.0.0.0/8`. Castellan trusts `X-Forwarded-For` and `X-Forwarded-Proto` only from these. If the list is not empty, every caller needs a key over HTTP.',
    ),
}

/** The hosts and origins that it accepts. */
export const webPageFields = {
  allowed_hosts: z
    .array(z.string(hostRule).regex(HOST, hostRule), hostRule)
    .default([])
    .describe(
      'Host headers accepted in addition to the loopback names and the listening address, as `name` or `name:port`.',
    ),
  allowed_origins: z
    .array(z.string(originRule).regex(ORIGIN, originRule), originRule)
    .default([])
    .describe(
      "Origins whose pages may call this server from a browser, in addition to its own, each with its port, such as `https://console.example` or `http://localhost:5173`. Where no key is required, they act with the owner's rights.",
    ),
}
