// A trader on the FIX engine jspurefix. Arguments: port, SenderCompID, Password. Prints a line for each message; exit status 0 at the end.
require('reflect-metadata')
const { AsciiSession, SessionLauncher } = require('jspurefix')

const [port, login, password] = process.argv.slice(2)
const symbol = { Symbol: 'OTHER' }
const now = () => new Date()

class Trader extends AsciiSession {
  constructor (config) {
    super(config)
    this.steps = []
  }

  onReady () {
    console.log('logged on')
    this.send('D', { ClOrdID: 'j1', Instrument: symbol, Side: '2', TransactTime: now(), OrderQtyData: { OrderQty: 40 }, OrdType: '2', Price: 612.5, TimeInForce: '1' })
  }

  onApplicationMsg (type, view) {
    const message = view.toObject()
    console.log(type, message.ExecType ?? '-', message.ClOrdID ?? '-', message.LeavesQty ?? '-', message.AvgPx ?? '-')
    if (type === '8' && message.ExecType === '0' && message.ClOrdID === 'j1') {
      this.send('D', { ClOrdID: 'j2', Instrument: symbol, Side: '1', TransactTime: now(), OrderQtyData: { OrderQty: 15 }, OrdType: '1' })
    } else if (type === '8' && message.ExecType === 'F' && message.ClOrdID === 'j2') {
      this.send('G', { ClOrdID: 'j3', OrigClOrdID: 'j1', Instrument: symbol, Side: '2', TransactTime: now(), OrderQtyData: { OrderQty: 30 }, OrdType: '2', Price: 613 })
    } else if (type === '8' && message.ExecType === '5') {
      this.send('V', { MDReqID: 'm', SubscriptionRequestType: '0', MarketDepth: 0, MDReqGrp: { NoMDEntryTypes: [{ MDEntryType: '0' }, { MDEntryType: '1' }] }, InstrmtMDReqGrp: { NoRelatedSym: [{ Instrument: symbol }] } })
    } else if (type === 'W') {
      this.send('F', { ClOrdID: 'j4', OrigClOrdID: 'j3', Instrument: symbol, Side: '2', TransactTime: now(), OrderQtyData: { OrderQty: 30 } })
    } else if (type === '8' && message.ExecType === '4') {
      this.done()
    }
  }

  onDecoded () {}
  onEncoded () {}
  onLogon () { return true }
  onStopped (error) {
    console.log('stopped', error ? error.message : '')
    process.exit(error ? 1 : 0)
  }
}

class Launcher extends SessionLauncher {
  makeFactory () {
    return { makeSession: config => new Trader(config) }
  }
}

const settings = {
  application: { type: 'initiator', name: 'trader', reconnectSeconds: 5, tcp: { host: '127.0.0.1', port: Number(port) }, protocol: 'ascii', dictionary: 'qf44' },
  Username: login,
  Password: password,
  EncryptMethod: 0,
  ResetSeqNumFlag: true,
  HeartBtInt: 30,
  SenderCompId: login,
  TargetCompID: 'SERL',
  BeginString: 'FIX.4.4'
}
new Launcher(settings, null).run().then(() => process.exit(0), error => { console.log('failed', error.message); process.exit(1) })
