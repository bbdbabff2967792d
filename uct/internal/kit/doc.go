// Package kit has what every transport needs besides its wire: the table of message
// handlers, the order in which endpoints with pending requests get their turn, the
// report of failed endpoints, and rings of whoever waits for something. It knows no
// transport.
package kit
