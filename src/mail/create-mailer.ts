import { createTransport } from 'nodemailer'
import { limits } from '../contract/limits.ts'
import type { Mailer } from '../domains/people/ports.ts'
import type { Logger } from '../kernel/logger.ts'

export type MailSettings = Readonly<{
  host: string
  port: number
  user: string | undefined
  password: string | undefined
  from: string
  tls: 'starttls' | 'implicit' | 'none'
}>

/** Mails by SMTP, one at a time for each connection. Plain text only, so that no reader shows more than it says. */
export function createMailer({ host, port, user, password, from, tls }: MailSettings, logger: Logger): Mailer {
  const transport = createTransport({
    host,
    port,
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    ...(user === undefined ? {} : { auth: { user, pass: password ?? '' } }),
    connectionTimeout: limits.mailConnectMs,
    greetingTimeout: limits.mailConnectMs,
    socketTimeout: limits.mailConnectMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    async send({ to, subject, text }) {
      try {
        await transport.sendMail({ from, to: { name: '', address: to }, subject, text })
        return true
      } catch (error) {
        logger.warn('mail could not be sent', { cause: String(error) })
        return false
      }
    },
  }
}
